// Sign-in to the console with a fake issuer: validation, renewal, storage and sign-out.
// Run by test_session.py, which bundles the session module as for browsers.

import assert from "node:assert/strict";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { beforeEach, test } from "node:test";
import { browser, CONSOLE } from "./browser.mjs";

const { openSession, finishSignIn } = await import(process.env.SESSION_MODULE);

const ISSUER = "https://login.example.com/acme";
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
let issuer;

function part(value) {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function idToken(claims) {
  const now = Math.floor(Date.now() / 1000);
  const all = { iss: ISSUER, aud: "console", sub: "ada", iat: now, exp: now + 3600, ...claims };
  const text = `${part({ alg: "RS256" })}.${part(all)}`;
  return `${text}.${sign("sha256", Buffer.from(text), privateKey).toString("base64url")}`;
}

function answer(body, status = 200) {
  return new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json" } });
}

// Returns the response from the issuer's token endpoint.
function grant(form) {
  issuer.grants.push(form.get("grant_type"));
  if (form.get("grant_type") === "refresh_token") {
    return issuer.renews ? tokens(issuer.renewed) : answer({ error: "invalid_grant" }, 400);
  }
  const challenge = createHash("sha256").update(form.get("code_verifier")).digest("base64url");
  return challenge === issuer.challenge ? tokens(issuer.claims) : answer({ error: "invalid_grant" }, 400);
}

function tokens(claims) {
  const known = { nonce: issuer.nonce, ...claims };
  return answer({
    access_token: "a",
    id_token: idToken(known),
    refresh_token: "r",
    token_type: "Bearer",
    expires_in: 1,
  });
}

beforeEach(() => {
  issuer = { grants: [], claims: {}, renewed: {}, renews: true, description: {}, described: 0, reached: true };
  browser.begin(`${CONSOLE}/dead-letters?status=all`, (url, options) => {
    if (url === `${CONSOLE}/config.json`) {
      return answer({ sign_in: { issuer: ISSUER, client: "console", discovery: `${ISSUER}/.well-known/x` } });
    }
    if (url === `${ISSUER}/.well-known/x`) {
      issuer.described += 1;
      if (!issuer.reached) {
        throw new TypeError("Failed to fetch");
      }
      const at = { authorization_endpoint: `${ISSUER}/authorize`, token_endpoint: `${ISSUER}/token` };
      return answer({ issuer: ISSUER, ...at, ...issuer.description });
    }
    assert.equal(url, `${ISSUER}/token`);
    return grant(new URLSearchParams(options.body));
  });
});

// Starts a sign-in. Returns the parameters of the authorization request.
async function startSignIn(session) {
  await session.signIn();
  const parameters = new URL(browser.navigatedTo).searchParams;
  issuer.challenge = parameters.get("code_challenge");
  issuer.nonce = parameters.get("nonce");
  return parameters;
}

function callback(parameters, more = { code: "c" }) {
  return new URL(`${CONSOLE}/signed-in?${new URLSearchParams({ state: parameters.get("state"), ...more })}`);
}

test("sign-in uses PKCE, state and nonce, and returns to the original page", async () => {
  const session = await openSession();
  const parameters = await startSignIn(session);
  assert.equal(parameters.get("response_type"), "code");
  assert.equal(parameters.get("code_challenge_method"), "S256");
  assert.equal(parameters.get("redirect_uri"), `${CONSOLE}/signed-in`);
  assert.equal(parameters.get("scope"), "openid email");
  assert.equal(await finishSignIn(session, callback(parameters)), `${CONSOLE}/dead-letters?status=all`);
  assert.equal(session.state, "signed-in");
  assert.equal((await session.token()).split(".").length, 3);
});

test("refresh tokens are requested if the issuer supports them", async () => {
  issuer.description = { scopes_supported: ["openid", "offline_access"] };
  assert.equal((await startSignIn(await openSession())).get("scope"), "openid email offline_access");
});

for (const [what, claims] of Object.entries({
  "another nonce": { nonce: "other" },
  "no nonce": { nonce: undefined },
  "another audience": { aud: "other" },
  "another issuer": { iss: "https://login.example.com/other" },
  "an expired token": { exp: Math.floor(Date.now() / 1000) - 600 },
})) {
  test(`a response with ${what} is rejected`, async () => {
    issuer.claims = claims;
    const session = await openSession();
    await assert.rejects(finishSignIn(session, callback(await startSignIn(session))), /Sign-in failed/);
    assert.equal(session.state, "signed-out");
    assert.equal(await session.token(), null);
  });
}

test("a response with another state is rejected without calling the issuer", async () => {
  const session = await openSession();
  await startSignIn(session);
  await assert.rejects(
    finishSignIn(session, new URL(`${CONSOLE}/signed-in?code=c&state=other`)),
    /was not started in this tab/,
  );
  assert.deepEqual(issuer.grants, []);
});

test("a response is accepted once", async () => {
  const session = await openSession();
  const parameters = await startSignIn(session);
  await finishSignIn(session, callback(parameters));
  assert.match(await finishSignIn(session, callback(parameters)), /\/console$/);
  assert.deepEqual(issuer.grants, ["authorization_code"]);
});

test("the issuer's error description is shown", async () => {
  const session = await openSession();
  const refused = callback(await startSignIn(session), { error: "access_denied", error_description: "Not you" });
  await assert.rejects(finishSignIn(session, refused), /Not you/);
});

test("discovery metadata from another issuer is rejected", async () => {
  issuer.description = { issuer: "https://login.example.com/other" };
  await assert.rejects(openSession(), /cannot be reached/);
});

test("concurrent callers renew an expiring token once", async () => {
  issuer.claims = { exp: Math.floor(Date.now() / 1000) + 100 };
  const session = await openSession();
  await finishSignIn(session, callback(await startSignIn(session)));
  const [one, other] = await Promise.all([session.token(), session.token()]);
  assert.equal(one, other);
  assert.deepEqual(issuer.grants, ["authorization_code", "refresh_token"]);
});

test("a renewed token for another user ends the session", async () => {
  issuer.renewed = { sub: "eve" };
  const session = await openSession();
  await finishSignIn(session, callback(await startSignIn(session)));
  await session.renew();
  assert.equal(session.state, "ended");
  assert.equal(await session.token(), null);
});

test("a failed renewal ends the session and clears storage", async () => {
  issuer.renews = false;
  const session = await openSession();
  await finishSignIn(session, callback(await startSignIn(session)));
  const states = [];
  session.watch((state) => states.push(state));
  await session.renew();
  assert.deepEqual(states, ["signed-in", "ended"]);
  assert.deepEqual(browser.storedKeys(), []);
});

test("the session survives a reload until sign-out", async () => {
  const session = await openSession();
  await finishSignIn(session, callback(await startSignIn(session)));
  assert.equal((await openSession()).state, "signed-in");
  issuer.description = { end_session_endpoint: `${ISSUER}/logout` };
  const again = await openSession();
  await again.signOut();
  assert.equal(new URL(browser.navigatedTo).searchParams.get("logout_uri"), `${CONSOLE}/signed-out`);
  assert.equal((await openSession()).state, "signed-out");
});

test("an unreachable issuer fails only calls that need it", async () => {
  const session = await openSession();
  await finishSignIn(session, callback(await startSignIn(session)));
  issuer.reached = false;
  issuer.described = 0;
  const again = await openSession();
  assert.equal(again.state, "signed-in");
  assert.equal(issuer.described, 0);
  await again.renew();
  assert.equal(again.state, "signed-in");
  await assert.rejects(again.signIn(), /cannot be reached/);
  issuer.reached = true;
  await again.signIn();
  assert.match(browser.navigatedTo, /authorize/);
});

test("sign-out works while the issuer is unreachable", async () => {
  const session = await openSession();
  await finishSignIn(session, callback(await startSignIn(session)));
  const again = await openSession();
  issuer.reached = false;
  await again.signOut();
  assert.match(browser.navigatedTo, /signed-out$/);
  assert.deepEqual(browser.storedKeys(), []);
});
