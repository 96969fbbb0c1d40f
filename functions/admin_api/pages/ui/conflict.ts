// Changes that conflict with a change by someone else.

import { ApiError } from "../api";

const CHANGED = [404, 409, 412];

// Sends a decision. If it is refused because of a change, the data behind the dialog is requested again.
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
