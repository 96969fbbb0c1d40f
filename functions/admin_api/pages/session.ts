// Sign-in: OpenID Connect authorization code with PKCE. Tokens are stored for this tab only (sessionStorage).
//
// API requests use the ID token, because every issuer sets its audience to this client.

import * as oauth from "oauth4webapi";
import { ROOT } from "./router";

const STORAGE_KEY = "counterfoil.session";
const SIGN_IN_KEY = "counterfoil.sign-in.";
const RENEW_BEFORE_SECONDS = 120; // before a token expires
const CLOCK_TOLERANCE_SECONDS = 60;
const SCOPES = ["openid", "email"];

export class SignInError extends Error {}

type Tokens = { id: string; refresh: string | null; claims: Claims };
type Claims = { sub: string; exp: number; email?: string; "cognito:groups"?: string[] };
type State = "signed-out" | "signed-in" | "ended";
type Listener = (state: State) => void;
type SignInConfig = { issuer: string; client: string; discovery: string };
// A sign-in in progress, stored under its OAuth state.
type SignIn = { verifier: string; nonce: string; back: string };

export class Session {
  readonly client: oauth.Client;
  readonly options: { [oauth.allowInsecureRequests]: boolean };
  state: State;

  #watchers = new Set<Listener>();
  #tokens: Tokens | null = null;
  #renewing: Promise<void> | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  #discover: () => Promise<oauth.AuthorizationServer>;
  #server: Promise<oauth.AuthorizationServer> | null = null;

  // `discover` requests the discovery document.
  constructor(discover: () => Promise<oauth.AuthorizationServer>, client: oauth.Client, insecure: boolean) {
    this.#discover = discover;
    this.client = client;
    this.options = { [oauth.allowInsecureRequests]: insecure };
    this.state = "signed-out";
  }

  // Returns the issuer's discovery document. It is requested on first use, because signed-in users do not need it.
  server() {
    this.#server ??= this.#discover().catch((error) => {
      this.#server = null; // requested again on next use
      throw error;
    });
    return this.#server;
  }

  restore() {
    const stored = sessionStorage.getItem(STORAGE_KEY);
    if (stored) {
      this.#take(JSON.parse(stored));
    }
  }

  watch(listener: Listener) {
    this.#watchers.add(listener);
    listener(this.state);
    return () => this.#watchers.delete(listener);
  }

  get claims(): Partial<Claims> {
    return this.#tokens?.claims ?? {};
  }

  get groups(): string[] {
    return this.claims["cognito:groups"] ?? [];
  }

  // Returns a valid token. If the token cannot be renewed, ends the session, notifies all listeners and returns null.
  async token(): Promise<string | null> {
    if (this.#tokens && this.#tokens.claims.exp - Date.now() / 1000 < RENEW_BEFORE_SECONDS) {
      await this.renew();
    }
    if (this.#tokens && this.#tokens.claims.exp * 1000 <= Date.now()) {
      this.end();
    }
    return this.#tokens?.id ?? null;
  }

  // Renews the token. Concurrent calls share one renewal. After a temporary failure, the current token stays in use.
  renew() {
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = null;
    });
    return this.#renewing;
  }

  async #renew() {
    const before = this.#tokens;
    if (!before?.refresh) {
      return;
    }
    try {
      const server = await this.server();
      const answer = await oauth.refreshTokenGrantRequest(
        server,
        this.client,
        oauth.None(),
        before.refresh,
        this.options,
      );
      const found = await oauth.processRefreshTokenResponse(server, this.client, answer);
      const claims = oauth.getValidatedIdTokenClaims(found) as Claims | undefined;
      if (!claims || claims.sub !== before.claims.sub) {
        this.end();
        return;
      }
      this.store({ id: found.id_token as string, refresh: found.refresh_token ?? before.refresh, claims });
    } catch (error) {
      if (error instanceof oauth.ResponseBodyError) {
        this.end();
      }
    }
  }

  store(tokens: Tokens) {
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(tokens));
    this.#take(tokens);
  }

  #take(tokens: Tokens) {
    this.#tokens = tokens;
    clearTimeout(this.#timer);
    const left = tokens.claims.exp * 1000 - Date.now();
    if (left <= 0 && !tokens.refresh) {
      this.end();
      return;
    }
    this.#timer = setTimeout(
      () => this.token(),
      Math.min(Math.max(left - RENEW_BEFORE_SECONDS * 1000, 1000), 2 ** 31 - 1),
    );
    this.#become("signed-in");
  }

  // Ends the session. The page then shows a notice and a sign-in button.
  end() {
    this.#forget();
    this.#become("ended");
  }

  #forget() {
    clearTimeout(this.#timer);
    this.#tokens = null;
    sessionStorage.removeItem(STORAGE_KEY);
  }

  #become(state: State) {
    if (state === this.state && state !== "signed-in") {
      return;
    }
    this.state = state;
    for (const listener of this.#watchers) {
      listener(state);
    }
  }

  // Redirects to the issuer, which redirects back to the current page.
  async signIn() {
    const server = await this.server();
    const back = /\/signed-(in|out)$/.test(location.pathname) ? new URL("../console", ROOT).href : location.href;
    const state = oauth.generateRandomState();
    const verifier = oauth.generateRandomCodeVerifier();
    const nonce = oauth.generateRandomNonce();
    sessionStorage.setItem(SIGN_IN_KEY + state, JSON.stringify({ verifier, nonce, back }));
    const url = new URL(server.authorization_endpoint as string);
    const known = server.scopes_supported ?? [];
    const scopes = known.includes("offline_access") ? [...SCOPES, "offline_access"] : SCOPES;
    const parameters = {
      client_id: this.client.client_id,
      redirect_uri: new URL("signed-in", ROOT).href,
      response_type: "code",
      scope: scopes.join(" "),
      state,
      nonce,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
    };
    for (const [name, value] of Object.entries(parameters)) {
      url.searchParams.set(name, value);
    }
    location.assign(url.href);
  }

  // Revokes the refresh token and ends the session at the issuer, if the issuer supports this.
  async signOut() {
    const refresh = this.#tokens?.refresh;
    this.#forget();
    const server = await this.server().catch(() => null); // an unreachable issuer does not prevent signing out here
    if (refresh && server?.revocation_endpoint) {
      try {
        await oauth.revocationRequest(server, this.client, oauth.None(), refresh, this.options);
      } catch {
        // A token that cannot be revoked expires later.
      }
    }
    const back = new URL("signed-out", ROOT).href;
    if (!server?.end_session_endpoint) {
      location.assign(back);
      return;
    }
    const url = new URL(server.end_session_endpoint);
    url.searchParams.set("client_id", this.client.client_id);
    url.searchParams.set("post_logout_redirect_uri", back);
    url.searchParams.set("logout_uri", back); // Cognito's name of the parameter
    location.assign(url.href);
  }
}

// Opens this tab's session. Throws SignInError if sign-in is not configured or the issuer cannot be reached.
export async function openSession() {
  const config: { sign_in: SignInConfig | null } = await (await fetch(new URL("config.json", ROOT))).json();
  const signIn = config.sign_in;
  if (!signIn) {
    throw new SignInError("This deployment has no sign-in page. Set its OpenID Connect issuer.");
  }
  const insecure = new URL(signIn.discovery).protocol === "http:" && ROOT.hostname === "127.0.0.1";
  const client = { client_id: signIn.client, [oauth.clockTolerance]: CLOCK_TOLERANCE_SECONDS };
  const session = new Session(() => discover(signIn), client, insecure);
  session.restore();
  if (session.state !== "signed-in") {
    await session.server(); // reports a failing issuer immediately
  }
  return session;
}

async function discover({ discovery, issuer }: SignInConfig) {
  try {
    const answer = await fetch(discovery, { headers: { accept: "application/json" } });
    return await oauth.processDiscoveryResponse(new URL(issuer), answer);
  } catch {
    throw new SignInError(`The sign-in service ${issuer} cannot be reached. Wait a few minutes, then reload.`);
  }
}

// Exchanges the issuer's code for tokens. Returns the URL of the page that started the sign-in.
export async function finishSignIn(session: Session, url: URL) {
  const state = url.searchParams.get("state") ?? "";
  const key = SIGN_IN_KEY + state;
  const signIn: SignIn | null = JSON.parse(sessionStorage.getItem(key) ?? "null");
  sessionStorage.removeItem(key);
  const home = new URL("../console", ROOT).href;
  if (!signIn) {
    if (session.state === "signed-in") {
      return home; // the browser's history repeated the same response
    }
    throw new SignInError("This sign-in was not started in this tab. Sign in again.");
  }
  const server = await session.server();
  try {
    const parameters = oauth.validateAuthResponse(server, session.client, url, state);
    const answer = await oauth.authorizationCodeGrantRequest(
      server,
      session.client,
      oauth.None(),
      parameters,
      new URL("signed-in", ROOT).href,
      signIn.verifier,
      session.options,
    );
    const found = await oauth.processAuthorizationCodeResponse(server, session.client, answer, {
      expectedNonce: signIn.nonce,
      requireIdToken: true,
    });
    const claims = oauth.getValidatedIdTokenClaims(found) as Claims;
    session.store({ id: found.id_token as string, refresh: found.refresh_token ?? null, claims });
  } catch (error) {
    const { error_description, error: code, message } = error as Error & { error_description?: string; error?: string };
    const reason = error_description ?? code ?? message;
    throw new SignInError(`Sign-in failed: ${reason}`);
  }
  return new URL(signIn.back).origin === ROOT.origin ? signIn.back : home;
}
