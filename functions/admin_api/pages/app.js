// The console: signs its user in and shows the view that the address names.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { html } from "htm/preact";
import { Letter } from "./letter.js";
import { Letters } from "./letters.js";
import { ask } from "./api.js";
import { go, here, usePlace } from "./place.js";
import { finish, open, SignInError } from "./session.js";
import { Notice } from "./parts.js";
import { Shell, SignInPage } from "./shell.js";
import { Task } from "./task.js";
import { Tasks } from "./tasks.js";

const VIEWS = {
  "dead-letters": ({ words }) => (words.length > 1 ? html`<${Letter} id=${words[1]} />` : html`<${Letters} />`),
  tasks: ({ words }) => (words.length > 1 ? html`<${Task} id=${words[1]} />` : html`<${Tasks} />`),
};

function Missing() {
  return html`<${Notice} alone title="There is no such page"
    >The address leads nowhere. <a href=${go.href("dead-letters")}>Go to the dead letters</a>.<//
  >`;
}

function View({ place, session }) {
  const view = VIEWS[place.words[0]];
  useEffect(() => {
    if (place.words[0] === "") {
      go("dead-letters", {}, { replace: true });
    }
  }, [place.words[0]]);
  return html`<${Shell} place=${place} session=${session}>
    ${view ? view({ words: place.words }) : place.words[0] === "" ? null : html`<${Missing} />`}
  <//>`;
}

function App({ session, failure }) {
  const place = usePlace();
  const [state, setState] = useState(session.state);
  useEffect(() => session.watch(setState), [session]);
  if (place.words[0] === "signed-out") {
    return html`<${SignInPage} title="You are signed out" session=${session} />`;
  }
  if (state === "signed-in") {
    return html`<${View} place=${place} session=${session} />`;
  }
  const title = state === "ended" ? "Your session has ended" : "Sign in";
  return html`<${SignInPage} title=${title} session=${session} failure=${failure} />`;
}

// Browsers look for the icon anew, from wherever the address has come to.
function pinIcon() {
  const icon = document.querySelector('link[rel="icon"]');
  icon.href = new URL(icon.href).href;
}

async function start() {
  pinIcon();
  const root = document.getElementById("app");
  let session;
  let failure = null;
  try {
    session = await open();
    ask.session = session;
    if (here().words[0] === "signed-in") {
      go.to(await finish(session, new URL(location.href)), { replace: true });
    }
  } catch (error) {
    if (!(error instanceof SignInError)) {
      console.error(error);
    }
    failure = error;
  }
  root.textContent = "";
  render(
    session ? html`<${App} session=${session} failure=${failure} />` : html`<${Notice} alone title="The console cannot start"
      >${failure.message}<//
    >`,
    root,
  );
}

start();
