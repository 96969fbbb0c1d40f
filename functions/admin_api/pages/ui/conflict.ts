// Conflicts with changes by other users.

import { ApiError } from "../api";

const CHANGED = [404, 409, 412];

// Calls `decide` and throws its errors. If another user changed the object first, also reloads the data behind the
// dialog and calls `onConflict`, which may throw a clearer error.
export async function refetchOnConflict(
  reload: () => void,
  decide: () => Promise<void>,
  onConflict: (error: ApiError) => void = () => {},
) {
  try {
    await decide();
  } catch (error) {
    if (error instanceof ApiError && CHANGED.includes(error.status)) {
      reload();
      onConflict(error);
    }
    throw error;
  }
}
