// Sign-in: OpenID Connect authorization code with PKCE. Tokens are stored for this tab only (sessionStorage).
//
// API requests use the ID token, because its audience is this client for every issuer.

import * as oauth from "oauth4webapi";
import { ROOT } from "./place.js";

const KEPT = "counterfoil.session";
const BEGUN = "counterfoil.sign-in.";
const EARLY_SECONDS = 120; // before its end, a token is renewed
const CLOCK_SECONDS = 60; // that clocks may differ
const SCOPES = ["openid", "email"];

export class SignInError extends Error {}

class Session {
  #watchers = new Set();
  #tokens = null;
  #renewing = null;
  #timer = null;

  #discover;
  #server = null;

  // `discover` asks the issuer where it does what.
  constructor(discover, client, insecure) {
    this.#discover = discover;
    this.client = client;
    this.options = { [oauth.allowInsecureRequests]: insecure };
    this.state = "signed-out";
  }

  // Discovery document of the issuer, requested on first use, because signed-in users do not need it.
  server() {
    this.#server ??= this.#discover().catch((error) => {
      this.#server = null; // and once more, when it is needed again
      throw error;
    });
    return this.#server;
  }

  restore() {
    const kept = sessionStorage.getItem(KEPT);
    if (kept) {
      this.#take(JSON.parse(kept));
    }
  }

  watch(hear) {
    this.#watchers.add(hear);
    hear(this.state);
    return () => this.#watchers.delete(hear);
  }

  get claims() {
    return this.#tokens?.claims ?? {};
  }

  get groups() {
    return this.claims["cognito:groups"] ?? [];
  }

  // A valid token, or null if the session has ended, which notifies all listeners.
  async token() {
    if (this.#tokens && this.#tokens.claims.exp - Date.now() / 1000 < EARLY_SECONDS) {
      await this.renew();
    }
    if (this.#tokens && this.#tokens.claims.exp * 1000 <= Date.now()) {
      this.end();
    }
    return this.#tokens?.id ?? null;
  }

  // One renewal at a time. If it fails temporarily, the current token stays.
  renew() {
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = null;
    });
    return this.#renewing;
  }

  async #renew() {
    if (!this.#tokens?.refresh) {
      return;
    }
    try {
      const before = this.#tokens;
      const server = await this.server();
      const answer = await oauth.refreshTokenGrantRequest(
        server, this.client, oauth.None(), before.refresh, this.options,
      );
      const found = await oauth.processRefreshTokenResponse(server, this.client, answer);
      const claims = oauth.getValidatedIdTokenClaims(found);
      if (!claims || claims.sub !== before.claims.sub) {
        this.end();
        return;
      }
      this.keep({ id: found.id_token, refresh: found.refresh_token ?? before.refresh, claims });
    } catch (error) {
      if (error instanceof oauth.ResponseBodyError) {
        this.end();
      }
    }
  }

  keep(tokens) {
    sessionStorage.setItem(KEPT, JSON.stringify(tokens));
    this.#take(tokens);
  }

  #take(tokens) {
    this.#tokens = tokens;
    clearTimeout(this.#timer);
    const left = tokens.claims.exp * 1000 - Date.now();
    if (left <= 0 && !tokens.refresh) {
      this.end();
      return;
    }
    this.#timer = setTimeout(() => this.token(), Math.min(Math.max(left - EARLY_SECONDS * 1000, 1000), 2 ** 31 - 1));
    this.#become("signed-in");
  }

  // The tokens have expired: the user is informed, and can sign in again on this page.
  end() {
    this.#forget();
    this.#become("ended");
  }

  #forget() {
    clearTimeout(this.#timer);
    this.#tokens = null;
    sessionStorage.removeItem(KEPT);
  }

  #become(state) {
    if (state === this.state && state !== "signed-in") {
      return;
    }
    this.state = state;
    for (const hear of this.#watchers) {
      hear(state);
    }
  }

  // To the issuer, and back to where the user is now.
  async signIn() {
    const server = await this.server();
    const back = /\/signed-(in|out)$/.test(location.pathname) ? new URL("../console", ROOT).href : location.href;
    const state = oauth.generateRandomState();
    const verifier = oauth.generateRandomCodeVerifier();
    const nonce = oauth.generateRandomNonce();
    sessionStorage.setItem(BEGUN + state, JSON.stringify({ verifier, nonce, back }));
    const url = new URL(server.authorization_endpoint);
    const known = server.scopes_supported ?? [];
    const scopes = known.includes("offline_access") ? [...SCOPES, "offline_access"] : SCOPES;
    const asked = {
      client_id: this.client.client_id,
      redirect_uri: new URL("signed-in", ROOT).href,
      response_type: "code",
      scope: scopes.join(" "),
      state,
      nonce,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
    };
    for (const [name, value] of Object.entries(asked)) {
      url.searchParams.set(name, value);
    }
    location.assign(url.href);
  }

  // Gives the refresh token back, and ends the session at the issuer, where it has an address for that.
  async signOut() {
    const refresh = this.#tokens?.refresh;
    this.#forget();
    const server = await this.server().catch(() => ({})); // where it cannot be reached, who leaves is signed out here
    if (refresh && server.revocation_endpoint) {
      try {
        await oauth.revocationRequest(server, this.client, oauth.None(), refresh, this.options);
      } catch {
        // Tokens that cannot be revoked expire.
      }
    }
    const back = new URL("signed-out", ROOT).href;
    if (!server.end_session_endpoint) {
      location.assign(back);
      return;
    }
    const url = new URL(server.end_session_endpoint);
    url.searchParams.set("client_id", this.client.client_id);
    url.searchParams.set("post_logout_redirect_uri", back);
    url.searchParams.set("logout_uri", back); // as Cognito calls it
    location.assign(url.href);
  }
}

// The session of this tab.
export async function open() {
  const told = await (await fetch(new URL("config.json", ROOT))).json();
  if (!told.sign_in) {
    throw new SignInError("This deployment does not say where people sign in.");
  }
  const insecure = new URL(told.sign_in.discovery).protocol === "http:" && ROOT.hostname === "127.0.0.1";
  const client = { client_id: told.sign_in.client, [oauth.clockTolerance]: CLOCK_SECONDS };
  const session = new Session(() => discovered(told.sign_in), client, insecure);
  session.restore();
  if (session.state !== "signed-in") {
    await session.server(); // reports a failing issuer immediately
  }
  return session;
}

async function discovered({ discovery, issuer }) {
  try {
    const answer = await fetch(discovery, { headers: { accept: "application/json" } });
    return await oauth.processDiscoveryResponse(new URL(issuer), answer);
  } catch {
    throw new SignInError(`The issuer ${issuer} cannot be reached, so that nobody can sign in just now.`);
  }
}

// Back from the issuer: the code becomes tokens. Returns where the user wanted to go.
export async function finish(session, url) {
  const key = BEGUN + url.searchParams.get("state");
  const begun = JSON.parse(sessionStorage.getItem(key) ?? "null");
  sessionStorage.removeItem(key);
  const home = new URL("../console", ROOT).href;
  if (!begun) {
    if (session.state === "signed-in") {
      return home; // the same answer once more: by the browser's history
    }
    throw new SignInError("This answer belongs to no sign-in that was begun in this tab. Sign in again.");
  }
  const server = await session.server();
  try {
    const parameters = oauth.validateAuthResponse(server, session.client, url, url.searchParams.get("state"));
    const answer = await oauth.authorizationCodeGrantRequest(
      server, session.client, oauth.None(), parameters, new URL("signed-in", ROOT).href, begun.verifier,
      session.options,
    );
    const found = await oauth.processAuthorizationCodeResponse(server, session.client, answer, {
      expectedNonce: begun.nonce,
      requireIdToken: true,
    });
    const claims = oauth.getValidatedIdTokenClaims(found);
    session.keep({ id: found.id_token, refresh: found.refresh_token ?? null, claims });
  } catch (error) {
    const reason = error.error_description ?? error.error ?? error.message;
    throw new SignInError(`The issuer did not sign you in: ${reason}`);
  }
  return new URL(begun.back).origin === ROOT.origin ? begun.back : home;
}
