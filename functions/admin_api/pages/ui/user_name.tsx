// Shows a user's email address or a worker's name. The signed-in user is shown as "you".

import { useEffect, useState } from "preact/hooks";
import { get, type Schemas } from "../api";
import { currentSession } from "../current_session";

const MAX_SUBJECTS = 50; // per request
// Email addresses by subject, from completed and pending requests; undefined for workers and unknown users.
const addresses = new Map<string, Promise<string | undefined>>();
let pending: { subjects: string[]; response: Promise<Record<string, string>> } | null = null;

// `isCapitalized`: the name starts a sentence or a table cell.
export function UserName({ value, isCapitalized = false }: { value: string | null; isCapitalized?: boolean }) {
  const isYou = value === currentSession().claims.sub;
  const email = useEmail(isYou ? null : value);
  if (isYou) {
    return isCapitalized ? "You" : "you";
  }
  return (
    <span class="user-name" title={email && (value ?? undefined)}>
      {email ?? value}
    </span>
  );
}

function useEmail(subject: string | null) {
  const [email, setEmail] = useState<string>();
  useEffect(() => {
    let isCurrent = true;
    setEmail(undefined);
    if (subject) {
      findEmail(subject).then((found) => isCurrent && setEmail(found));
    }
    return () => {
      isCurrent = false;
    };
  }, [subject]);
  return email;
}

function findEmail(subject: string) {
  const known = addresses.get(subject);
  if (known) {
    return known;
  }
  if (!pending || pending.subjects.length >= MAX_SUBJECTS) {
    const subjects: string[] = [];
    pending = { subjects, response: findEmails(subjects) };
  }
  pending.subjects.push(subject);
  const address = pending.response.then((emails) => emails[subject]);
  addresses.set(subject, address);
  return address;
}

// Requests email addresses once all names on the page have added their subjects. If the request fails, the page shows
// subjects.
async function findEmails(subjects: string[]): Promise<Record<string, string>> {
  await new Promise((resolve) => setTimeout(resolve));
  pending = null;
  try {
    return (await get<Schemas["Emails"]>("admin/people/emails", { subject: subjects.join(",") })).emails;
  } catch {
    for (const subject of subjects) {
      addresses.delete(subject);
    }
    return {};
  }
}
