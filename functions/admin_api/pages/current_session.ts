// The session of the signed-in user.

import type { Session } from "./session";

let current: Session | null = null;

export function setCurrentSession(session: Session) {
  current = session;
}

export function currentSession(): Session {
  if (current === null) {
    throw new Error("No session is open.");
  }
  return current;
}
