// Signing in to the console, against an issuer made up here: what is believed, what is refused, and what is kept.
// Run by test_session.py, which bundles the module under test as it is bundled for browsers.

import assert from "node:assert/strict";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { beforeEach, test } from "node:test";
import { browser, CONSOLE } from "./browser.mjs";

const { open, finish } = await import(process.env.SESSION_MODULE);

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

// What the issuer answers to a form that is posted to its token endpoint.
function granted(form) {
  issuer.asked.push(form.get("grant_type"));
  if (form.get("grant_type") === "refresh_token") {
    return issuer.renews ? tokens(issuer.renewed) : answer({ error: "invalid_grant" }, 400);
  }
  const challenge = createHash("sha256").update(form.get("code_verifier")).digest("base64url");
  return challenge === issuer.challenge ? tokens(issuer.claims) : answer({ error: "invalid_grant" }, 400);
}

function tokens(claims) {
  const known = { nonce: issuer.nonce, ...claims };
  return answer({ access_token: "a", id_token: idToken(known), refresh_token: "r", token_type: "Bearer", expires_in: 1 });
}

beforeEach(() => {
  issuer = { asked: [], claims: {}, renewed: {}, renews: true, description: {}, described: 0, reached: true };
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
    return granted(new URLSearchParams(options.body));
  });
});

// Begins to sign in; returns what the browser asks the issuer for.
async function begun(session) {
  await session.signIn();
  const asked = new URL(browser.went).searchParams;
  issuer.challenge = asked.get("code_challenge");
  issuer.nonce = asked.get("nonce");
  return asked;
}

function back(asked, more = { code: "c" }) {
  return new URL(`${CONSOLE}/signed-in?${new URLSearchParams({ state: asked.get("state"), ...more })}`);
}

test("a user is sent to the issuer with PKCE, state and nonce, and comes back to where he was", async () => {
  const session = await open();
  const asked = await begun(session);
  assert.equal(asked.get("response_type"), "code");
  assert.equal(asked.get("code_challenge_method"), "S256");
  assert.equal(asked.get("redirect_uri"), `${CONSOLE}/signed-in`);
  assert.equal(asked.get("scope"), "openid email");
  assert.equal(await finish(session, back(asked)), `${CONSOLE}/dead-letters?status=all`);
  assert.equal(session.state, "signed-in");
  assert.equal((await session.token()).split(".").length, 3);
});

test("an issuer that has them is asked for refresh tokens", async () => {
  issuer.description = { scopes_supported: ["openid", "offline_access"] };
  assert.equal((await begun(await open())).get("scope"), "openid email offline_access");
});

for (const [what, claims] of Object.entries({
  "another nonce": { nonce: "other" },
  "no nonce": { nonce: undefined },
  "another audience": { aud: "other" },
  "another issuer": { iss: "https://login.example.com/other" },
  "a token that is over": { exp: Math.floor(Date.now() / 1000) - 600 },
})) {
  test(`an answer with ${what} signs nobody in`, async () => {
    issuer.claims = claims;
    const session = await open();
    await assert.rejects(finish(session, back(await begun(session))), /did not sign you in/);
    assert.equal(session.state, "signed-out");
    assert.equal(await session.token(), null);
  });
}

test("an answer that belongs to no sign-in of this tab is refused before the issuer is asked", async () => {
  const session = await open();
  await begun(session);
  await assert.rejects(finish(session, new URL(`${CONSOLE}/signed-in?code=c&state=other`)), /belongs to no sign-in/);
  assert.deepEqual(issuer.asked, []);
});

test("an answer is taken once", async () => {
  const session = await open();
  const asked = await begun(session);
  await finish(session, back(asked));
  assert.match(await finish(session, back(asked)), /\/console$/);
  assert.deepEqual(issuer.asked, ["authorization_code"]);
});

test("what the issuer says of a failure is told", async () => {
  const session = await open();
  const refused = back(await begun(session), { error: "access_denied", error_description: "Not you" });
  await assert.rejects(finish(session, refused), /Not you/);
});

test("an issuer that describes another one is not believed", async () => {
  issuer.description = { issuer: "https://login.example.com/other" };
  await assert.rejects(open(), /cannot be reached/);
});

test("a token is renewed before it is over, once for all who ask", async () => {
  issuer.claims = { exp: Math.floor(Date.now() / 1000) + 100 };
  const session = await open();
  await finish(session, back(await begun(session)));
  const [one, other] = await Promise.all([session.token(), session.token()]);
  assert.equal(one, other);
  assert.deepEqual(issuer.asked, ["authorization_code", "refresh_token"]);
});

test("a token of somebody else does not take the place of the first", async () => {
  issuer.renewed = { sub: "eve" };
  const session = await open();
  await finish(session, back(await begun(session)));
  await session.renew();
  assert.equal(session.state, "ended");
  assert.equal(await session.token(), null);
});

test("whoever's session is not renewed any more is told, and nothing of it is kept", async () => {
  issuer.renews = false;
  const session = await open();
  await finish(session, back(await begun(session)));
  const heard = [];
  session.watch((state) => heard.push(state));
  await session.renew();
  assert.deepEqual(heard, ["signed-in", "ended"]);
  assert.deepEqual(browser.kept(), []);
});

test("a page that is loaded again is still signed in, and after signing out it is not", async () => {
  const session = await open();
  await finish(session, back(await begun(session)));
  assert.equal((await open()).state, "signed-in");
  issuer.description = { end_session_endpoint: `${ISSUER}/logout` };
  const again = await open();
  await again.signOut();
  assert.equal(new URL(browser.went).searchParams.get("logout_uri"), `${CONSOLE}/signed-out`);
  assert.equal((await open()).state, "signed-out");
});

test("who is signed in does not wait for the issuer, and is told when it is needed and cannot be reached", async () => {
  const session = await open();
  await finish(session, back(await begun(session)));
  issuer.reached = false;
  issuer.described = 0;
  const again = await open();
  assert.equal(again.state, "signed-in");
  assert.equal(issuer.described, 0);
  await again.renew();
  assert.equal(again.state, "signed-in");
  await assert.rejects(again.signIn(), /cannot be reached/);
  issuer.reached = true;
  await again.signIn();
  assert.match(browser.went, /authorize/);
});

test("who signs out is signed out here, even while the issuer cannot be reached", async () => {
  const session = await open();
  await finish(session, back(await begun(session)));
  const again = await open();
  issuer.reached = false;
  await again.signOut();
  assert.match(browser.went, /signed-out$/);
  assert.deepEqual(browser.kept(), []);
});
