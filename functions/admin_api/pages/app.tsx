// Entry point of the console: signs the user in and shows the view for the URL.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { currentSession, setCurrentSession } from "./current_session";
import { homeView } from "./roles";
import { currentRoute, navigate, type Route, useRoute } from "./router";
import { finishSignIn, openSession, type Session, SignInError } from "./session";
import { Shell, SignInPage } from "./shell";
import { Notice } from "./ui/components";
import { type View as ConsoleView, VIEWS } from "./views";

function NotFound() {
  return (
    <Notice isWholePage title="Page not found">
      There is no page at this address. <a href={navigate.href(homeView(currentSession()))}>Go to the start page</a>.
    </Notice>
  );
}

function View({ route, session }: { route: Route; session: Session }) {
  const { segments } = route;
  const view = Object.hasOwn(VIEWS, segments[0]) ? VIEWS[segments[0]] : null;
  useEffect(() => {
    if (segments[0] === "") {
      navigate(homeView(session), {}, { replace: true });
    }
  }, [segments[0]]);
  const Shown: ConsoleView["detail"] | null = view && (segments.length > 1 ? view.detail : view.view);
  return (
    <Shell route={route} session={session} views={VIEWS}>
      {Shown ? (
        <Shown key={segments.join("/")} id={segments[1]} segments={segments} />
      ) : (
        segments[0] !== "" && <NotFound />
      )}
    </Shell>
  );
}

function App({ session, failure }: { session: Session; failure: Error | null }) {
  const route = useRoute();
  const [state, setState] = useState(session.state);
  useEffect(() => session.watch(setState), [session]);
  if (route.segments[0] === "signed-out") {
    return <SignInPage title="You are signed out" session={session} />;
  }
  if (state === "signed-in") {
    return <View route={route} session={session} />;
  }
  const [title, lead] =
    state === "ended"
      ? ["Your session has ended", "Sign in again to return to this page."]
      : ["Sign in", "Review matched documents, differences and failed work items."];
  return <SignInPage title={title} lead={lead} session={session} failure={failure} />;
}

// Makes the icon's URL absolute, because browsers resolve it again when the page's URL changes.
function pinIcon() {
  const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
  if (icon) {
    icon.href = new URL(icon.href).href;
  }
}

async function start() {
  pinIcon();
  const root = document.getElementById("app") as HTMLElement;
  let session: Session | undefined;
  let failure: Error | null = null;
  try {
    session = await openSession();
    setCurrentSession(session);
    if (currentRoute().segments[0] === "signed-in") {
      navigate.to(await finishSignIn(session, new URL(location.href)), { replace: true });
    }
  } catch (error) {
    if (!(error instanceof SignInError)) {
      console.error(error);
    }
    failure = error as Error;
  }
  root.textContent = "";
  render(
    session ? (
      <App session={session} failure={failure} />
    ) : (
      <Notice isWholePage title="The console cannot start">
        {failure?.message}
      </Notice>
    ),
    root,
  );
}

start();
