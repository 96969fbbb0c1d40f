// The console: signs its user in and shows the view that the address names.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { html } from "htm/preact";
import { ask } from "./api.js";
import { go, here, usePlace } from "./place.js";
import { finish, open, SignInError } from "./session.js";
import { Notice } from "./parts.js";
import { Shell, SignInPage } from "./shell.js";
import { homeOf } from "./roles.js";
import { VIEWS } from "./views.js";

function Missing() {
  return html`<${Notice} alone title="There is no such page"
    >The address leads nowhere. <a href=${go.href(homeOf(ask.session))}>Go to the first page</a>.<//
  >`;
}

function View({ place, session }) {
  const { words } = place;
  const view = Object.hasOwn(VIEWS, words[0]) ? VIEWS[words[0]] : null;
  useEffect(() => {
    if (words[0] === "") {
      go(homeOf(session), {}, { replace: true });
    }
  }, [words[0]]);
  const shown = view && (words.length > 1 ? view.one : view.view);
  return html`<${Shell} place=${place} session=${session} views=${VIEWS}>
    ${shown ? html`<${shown} key=${words.join("/")} id=${words[1]} words=${words} />` : words[0] !== "" && html`<${Missing} />`}
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

// Browsers look for the icon again after a change of the address.
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
