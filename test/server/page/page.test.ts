import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/io.ts";
import { hashKey } from "../../../src/server/api/accounts.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { createForecast } from "../../../src/server/page/forecast.ts";
import { leftText } from "../../../src/server/page/formatting.ts";
import type { GenerationSummary } from "../../../src/server/store/reports.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { aPng, squaresJpeg } from "../queue/pictures.ts";
import { createDistant } from "../service.ts";
import { apiKey, labelled, openTestPage, paid, receive, type TestPage } from "./harness.ts";
import { cookieOf, useLink } from "./sign-in.ts";

/** Opens the link and returns the cookie that a browser would keep. */
async function signIn({ link }: Pick<TestPage, "link">, headers?: Record<string, string>): Promise<string> {
  const reply = await useLink(link, headers);
  expect(reply.status).toBe(200);
  return cookieOf(reply);
}

async function openSignedIn() {
  const page = await openTestPage();
  const Cookie = await signIn(page);
  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(page.url + path, { headers: { Cookie, ...headers } });
  return { ...page, Cookie, get };
}

test("pages that are fetched at once let other requests in between", async () => {
  const store = await openStore(":memory:");
  let turn = 0;
  const made: number[] = [];
  const list: typeof store.list = (query) => {
    made.push(turn);
    return store.list(query);
  };
  const page = await openTestPage({ store: { ...store, list } });
  const Cookie = await signIn(page);
  const { host, hostname, port } = new URL(page.url);
  const sockets = Array.from({ length: 50 }, () => connect(Number(port), hostname));
  const requestOf = (path: string) => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nCookie: ${Cookie}\r\n`;
  // A server accepts one connection in a turn.
  for (const socket of sockets) socket.write(`${requestOf("/assets/none")}\r\n`);
  await Promise.all(sockets.map((socket) => once(socket, "data")));
  const count = () => {
    turn++;
    if (made.length < sockets.length) setImmediate(count);
  };
  count();
  for (const socket of sockets) socket.resume().write(`${requestOf("/")}Connection: close\r\n\r\n`);
  await Promise.all(sockets.map((socket) => once(socket, "close")));
  expect(made).toHaveLength(sockets.length);
  expect(new Set(made).size).toBe(sockets.length);
});

describe("who may look", () => {
  const paths = [
    "/",
    "/callbacks",
    "/credits",
    "/engine-status",
    "/events",
    "/generations/x",
    "/generations/x/request",
    "/generations/x/images/0",
    "/videos/x.mp4",
    "/new",
    "/compare",
    "/batches",
    "/batches/x",
    "/?token=guess",
  ];

  test.each(paths)("without a session %s is refused, with what to do", async (path) => {
    const { url } = await openTestPage();
    for (const Cookie of ["", "vidgen_page_1=a.b", `vidgen_page_${new URL(url).port}=9999999999999.AAAA`]) {
      const reply = await fetch(url + path, { headers: { Cookie } });
      expect(reply.status).toBe(401);
      expect(await reply.text()).toContain("vidgen serve");
    }
  });

  test("the link gives a cookie that no script and no other site gets, and leaves the address bar", async () => {
    const { link, url } = await openTestPage();
    const reply = await useLink(link);
    const port = new URL(url).port;
    expect(reply.headers.get("Set-Cookie")).toMatch(
      new RegExp(`^vidgen_page_${port}=\\S+; Max-Age=604800; Path=/; HttpOnly; SameSite=Strict$`),
    );
    expect(await reply.text()).toContain(`<meta http-equiv="refresh" content="0; url=${url}/"`);
  });

  test("a link signs in once: opening it uses up nothing, and a copy from a log is worth nothing", async () => {
    const { link } = await openTestPage();
    for (let opened = 0; opened < 2; opened++) {
      const reply = await fetch(link);
      expect([reply.status, reply.headers.get("Set-Cookie")]).toEqual([200, null]);
      expect(await reply.text()).toContain("Sign in");
    }
    const used = await Promise.all([useLink(link), useLink(link)]);
    const [signedIn] = used.filter(({ headers }) => headers.has("Set-Cookie"));
    // Back in the history, or opened again: the link leaves the address bar.
    const Cookie = cookieOf(signedIn ?? new Response());
    const again = await fetch(`${link}&model=sora-2`, { headers: { Cookie }, redirect: "manual" });
    expect([again.status, again.headers.get("Location")]).toEqual([303, "/?model=sora-2"]);
    expect(used.map(({ status }) => status).sort()).toEqual([200, 401]);
    expect(used.filter(({ headers }) => headers.has("Set-Cookie"))).toHaveLength(1);
    // Something behind it makes it no other link.
    expect((await useLink(`${link}.x`)).status).toBe(401);
    const later = await useLink(link);
    expect([later.status, await later.text()]).toEqual([401, expect.stringContaining("vidgen serve --link")]);
  });

  test("a link that another site sends as a form signs nobody in", async () => {
    const { link } = await openTestPage();
    expect((await useLink(link, { Origin: "https://evil.example" })).status).toBe(403);
    expect((await useLink(link)).status).toBe(200);
  });

  test("the session survives a restart, and a used link stays used", async () => {
    const page = await openTestPage();
    const { link } = page;
    const Cookie = cookieOf(await useLink(link));
    await page.restart();
    expect((await useLink(link)).status).toBe(401);
    expect((await fetch(page.url, { headers: { Cookie } })).status).toBe(200);
  });

  test("signing out ends the session, also for a copy of its cookie, and no other session", async () => {
    const page = await openTestPage();
    const [Cookie, other] = [await signIn(page), await signIn(page)];
    const status = async (Cookie: string) => (await fetch(page.url, { headers: { Cookie } })).status;
    const headers = { Cookie, Origin: page.url };
    const left = await fetch(`${page.url}/sign-out`, { method: "POST", headers, redirect: "manual" });
    expect([left.status, left.headers.get("Set-Cookie")]).toEqual([303, expect.stringContaining("Max-Age=0")]);
    expect([await status(Cookie), await status(other)]).toEqual([401, 200]);
    await page.restart();
    expect([await status(Cookie), await status(other)]).toEqual([401, 200]);
  });

  test("signing out everywhere ends each session of the account that has begun, and no other account's", async () => {
    const store = await openStore(":memory:");
    for (const name of ["studio", "other"])
      await store.addAccount({ name, keyHash: hashKey(`a-key-of-${name}`), creditsOf: () => 100 });
    await store.addAccount({ name: "studio", keyHash: hashKey("a-second-key"), keyName: "laptop" });
    const page = await openTestPage({ store });
    const signInBy = async (key: string) => {
      const body = new URLSearchParams({ key });
      return cookieOf(await fetch(page.url, { method: "POST", headers: { Origin: page.url }, body }));
    };
    const cookies = await Promise.all(["a-key-of-studio", "a-second-key", "a-key-of-other"].map(signInBy));
    const status = async (Cookie = "") => (await fetch(page.url, { headers: { Cookie } })).status;
    const text = await (await fetch(page.url, { headers: { Cookie: cookies[0] ?? "" } })).text();
    expect(text).toContain(">Sign out everywhere<");
    const [, path = ""] = /formaction="(\S+)"/.exec(text) ?? [];
    const signOut = (Cookie: string) =>
      fetch(page.url + path, { method: "POST", headers: { Cookie, Origin: page.url }, redirect: "manual" });
    expect((await signOut(cookies[0] ?? "")).status).toBe(303);
    expect(await Promise.all(cookies.map(status))).toEqual([401, 401, 200]);
    expect(await status(await signInBy("a-key-of-studio"))).toBe(200);
    // A session that has ended ends no other.
    const again = await signInBy("a-second-key");
    await signOut(cookies[0] ?? "");
    expect(await status(again)).toBe(200);
  });

  test("signing out ends the event streams of the session at the next ping, and no other stream", async () => {
    const clock = {
      ...systemClock,
      now: () => 100 * systemClock.now(),
      sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 100, signal),
    };
    const page = await openTestPage({ clock });
    const [Cookie, other] = [await signIn(page), await signIn(page)];
    const open = async (Cookie: string) => (await fetch(`${page.url}/events`, { headers: { Cookie } })).body;
    const [ended, kept] = [await open(Cookie), (await open(other))?.getReader()];
    const headers = { Cookie, Origin: page.url };
    await fetch(`${page.url}/sign-out`, { method: "POST", headers, redirect: "manual" });
    await ended?.pipeTo(new WritableStream());
    await page.make();
    let text = "";
    while (!text.includes("generation")) text += new TextDecoder().decode((await kept?.read())?.value);
    await kept?.cancel();
  });

  test("a visit does not make a session longer", async () => {
    const { get } = await openSignedIn();
    const reply = await get("/", { "Sec-Fetch-Mode": "navigate" });
    expect([reply.status, reply.headers.get("Set-Cookie")]).toEqual([200, null]);
  });

  test("no key is in anything that the browser gets", async () => {
    const { get, make, Cookie, webhookSecret } = await openSignedIn();
    const id = await make({ callback_url: (await receive()).url });
    const texts = await Promise.all(
      ["/", `/generations/${id}`, "/callbacks", "/credits", "/engine-status"].map(async (path) =>
        (await get(path)).text(),
      ),
    );
    expect(texts.join()).toContain("$VIDGEN_API_KEY");
    for (const secret of [apiKey, webhookSecret]) expect([...texts, Cookie].join()).not.toContain(secret);
  });
});

test("HEAD of the events opens no stream", async () => {
  const { url, Cookie } = await openSignedIn();
  const reply = await fetch(`${url}/events`, { method: "HEAD", headers: { Cookie } });
  expect(reply.status).toBe(200);
  expect(reply.headers.get("Content-Type")).not.toBe("text/event-stream");
});

describe("behind a proxy that adds TLS", () => {
  const publicUrl = "https://video.example";

  async function openBehindProxy() {
    const page = await openTestPage({ publicUrl });
    const { url: callback_url, received } = await receive();
    const id = await page.make({ callback_url });
    await expect.poll(() => received.length).toBe(1);
    const Cookie = await signIn(page, { Origin: publicUrl });
    const send = (Origin: string) =>
      fetch(`${page.url}/callbacks/${id}/send`, { method: "POST", headers: { Cookie, Origin } });
    return { ...page, id, Cookie, send, received };
  }

  test("the page at its public address sends a callback again, and none at another address does", async () => {
    const { url, send, received } = await openBehindProxy();
    for (const origin of ["http://video.example", "https://evil.example", "https://video.example:8443", url])
      expect([origin, (await send(origin)).status]).toEqual([origin, 403]);
    expect(received).toHaveLength(1);
    expect((await send(publicUrl)).status).toBe(204);
    await expect.poll(() => received.length).toBe(2);
  });

  test("the session is for https alone, and one whichever process answers; the lines name the public address", async () => {
    const { link, url, id, Cookie } = await openBehindProxy();
    const cookie = (await useLink(link, { Origin: publicUrl })).headers.get("Set-Cookie");
    expect(cookie).toMatch(/^vidgen_page_=.*; HttpOnly; SameSite=Strict; Secure$/);
    const text = await (await fetch(`${url}/generations/${id}`, { headers: { Cookie } })).text();
    expect(text).toContain("curl https://video.example/api/generate");
    expect(text).toContain("--base-url https://video.example");
    expect(text).not.toContain(url);
  });
});

test("while the database is away, the page says so in plain words, and when to come again", async () => {
  const distant = createDistant(await openStore(":memory:"));
  const page = await openTestPage({ store: distant.store });
  const id = await page.make();
  const Cookie = await signIn(page);
  distant.isAway = true;
  for (const path of ["/", `/generations/${id}`, "/callbacks", "/credits", "/engine-status"]) {
    const reply = await fetch(page.url + path, { headers: { Cookie } });
    expect([reply.status, reply.headers.get("Retry-After")]).toEqual([503, "5"]);
    const text = await reply.text();
    expect(text).toContain("The database cannot be reached");
    expect(text).not.toContain("canary");
  }
  distant.isAway = false;
  expect((await fetch(page.url, { headers: { Cookie } })).status).toBe(200);
});

describe("what other sites may do", () => {
  test.each([
    { name: "another site", origin: () => "http://evil.example" },
    { name: "a sandboxed frame", origin: () => "null" },
    { name: "another port of this machine", origin: () => "http://127.0.0.1:1" },
    { name: "localhost instead of 127.0.0.1", origin: (url: string) => url.replace("127.0.0.1", "localhost") },
    { name: "no origin", origin: () => undefined },
  ])("$name: sending callbacks again is refused", async ({ origin }) => {
    const { url, make, Cookie } = await openSignedIn();
    const { url: callback_url, received } = await receive({ status: 410, text: "" });
    const id = await make({ callback_url });
    await expect.poll(() => received.length).toBe(1);
    const own = origin(url);
    const headers = { Cookie, ...(own === undefined ? {} : { Origin: own }) };
    for (const path of [`/callbacks/${id}/send`, "/callbacks/send"]) {
      expect([path, (await fetch(url + path, { method: "POST", headers })).status]).toEqual([path, 403]);
      const stranger = await fetch(url + path, { method: "POST", headers: { Origin: url } });
      expect([path, stranger.status]).toEqual([path, 401]);
    }
    expect(received).toHaveLength(1);
  });

  test("what asks for no callback is refused, and changes nothing", async () => {
    const { url, Cookie } = await openSignedIn();
    const post = (path: string) => fetch(url + path, { method: "POST", headers: { Cookie, Origin: url } });
    for (const id of ["none", "%00", crypto.randomUUID()])
      expect((await post(`/callbacks/${id}/send`)).status).toBe(404);
    expect((await post("/callbacks/send?host=nowhere.example%00")).status).toBe(204);
  });

  test.each(["/", "/callbacks", "/credits", "/engine-status", "/generations/none"])(
    "%s cannot be framed, cached or scripted",
    async (path) => {
      const { get } = await openSignedIn();
      const { headers } = await get(path);
      expect(Object.fromEntries(headers)).toMatchObject({
        "content-security-policy":
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        "referrer-policy": "same-origin",
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
      });
    },
  );
});

test("videos are read in ranges, and a look at one uses up nothing that its prompt asks of the media address", async () => {
  const { get, make } = await openSignedIn();
  const id = await make({ prompt: "a fox [media: 403]" });
  const reply = await get(`/videos/${id}.mp4`, { Range: "bytes=4-7" });
  expect([reply.status, await reply.text()]).toEqual([206, "ftyp"]);
  expect((await get(`/videos/${id}.png`)).headers.get("Content-Type")).toBe("image/png");
  expect((await get("/videos/..%2Fservice.json")).status).toBe(404);
});

test("an image of a request is shown as what its bytes are; whatever is no picture, or is not here, is no image", async () => {
  const { url, get } = await openSignedIn();
  const imageUrls = [
    `data:image/svg+xml;base64,${Buffer.from(squaresJpeg).toString("base64")}`,
    `data:image/png,${encodeURIComponent("<script>alert(1)</script>")}`,
    "data:image/png;base64,not base64!",
    "https://images.example/fox.png",
  ];
  const headers = { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" };
  const start = (body: object) =>
    fetch(`${url}/api/generate`, {
      ...{ method: "POST", headers },
      body: JSON.stringify({ prompt: "a fox", model: "wan-2.5", ...body }),
    });
  const { id } = ((await (await start({ imageUrls: [imageUrls[0], imageUrls[3]] })).json()) as { data: { id: string } })
    .data;
  for (const imageUrl of imageUrls.slice(1, 3)) expect((await start({ imageUrl })).status).toBe(400);
  const reply = await get(`/generations/${id}/images/0`);
  expect(Buffer.from(await reply.arrayBuffer()).equals(squaresJpeg)).toBe(true);
  const names = ["Content-Type", "X-Content-Type-Options", "Content-Security-Policy", "Cross-Origin-Resource-Policy"];
  expect(names.map((name) => reply.headers.get(name))).toEqual([
    ...["image/jpeg", "nosniff", expect.stringContaining("default-src 'none'"), "same-origin"],
  ]);
  for (const wrong of ["1", "2", "3", "4", "-1", "x", "length"])
    expect([wrong, (await get(`/generations/${id}/images/${wrong}`)).status]).toEqual([wrong, 404]);
});

test("a callback that was given up is sent again under its own webhook-id, and what came back is kept", async () => {
  const { url, get, make, Cookie } = await openSignedIn();
  const { url: callback_url, received } = await receive(
    { status: 410, text: "no\u0007longer" },
    { status: 200, text: "ok" },
  );
  const id = await make({ callback_url });
  await expect.poll(async () => (await get("/callbacks")).text()).toContain("Given up");
  await expect.poll(async () => (await get("/callbacks")).text()).toContain("no longer");
  const reply = await fetch(`${url}/callbacks/${id}/send`, { method: "POST", headers: { Cookie, Origin: url } });
  expect(reply.status).toBe(204);
  await expect.poll(async () => (await get("/callbacks")).text()).toContain("Delivered");
  expect(received).toHaveLength(2);
  expect(received[1]).toEqual(received[0]);
});

test("what its account has removed says so, in the list and on its own page, and its link is gone", async () => {
  const { url, make, get } = await openSignedIn();
  const id = await make();
  const headers = { Authorization: `Bearer ${apiKey}` };
  expect((await fetch(`${url}/v1/videos/${id}`, { method: "DELETE", headers })).status).toBe(200);
  expect(await (await get("/")).text()).toContain("Deleted. The record is kept.");
  expect(await (await get(`/generations/${id}`)).text()).toContain("This generation was deleted");
  expect((await get(`/videos/${id}.mp4`)).status).toBe(404);
});

describe("an account's own key", () => {
  const theirKey = "canary-key-of-another-account";

  /** Two accounts, each with a video; the visitor of `get` has signed in with the key of the second. */
  async function openTwo() {
    const store = await openStore(":memory:");
    const account = { name: "another", keyHash: hashKey(theirKey), creditsOf: () => 100 };
    const page = await openTestPage({ store });
    await store.addAccount(account);
    const callbacks = await receive({ status: 200, text: "" });
    const own = { callback_url: callbacks.url };
    const theirs = await page.make({ prompt: "a whale of theirs", ...own }, theirKey);
    const mine = await page.make({ prompt: "a fox of mine", ...own });
    await expect.poll(() => callbacks.received.length).toBe(2);
    const signInWith = (key: string, Origin = page.url) => {
      const headers = { Origin, "Content-Type": "application/x-www-form-urlencoded" };
      return fetch(`${page.url}/`, { method: "POST", headers, body: new URLSearchParams({ key }) });
    };
    const reply = await signInWith(theirKey);
    const Cookie = cookieOf(reply);
    const get = (path: string) => fetch(page.url + path, { headers: { Cookie } });
    return { ...page, store, theirs, mine, signInWith, reply, Cookie, get };
  }

  test("signs in to what that account has made, been called back about and spent, and to nothing else", async () => {
    const { get, theirs, mine, url, Cookie } = await openTwo();
    for (const path of ["/", "/callbacks", "/credits", `/generations/${theirs}`]) {
      const text = await (await get(path)).text();
      expect(text).toContain("a whale of theirs");
      expect(text).not.toContain(mine);
      expect(text).not.toContain("a fox of mine");
      expect(text).not.toContain("/engine-status");
    }
    for (const [path, status] of [
      [`/generations/${mine}`, 404],
      [`/videos/${mine}.mp4`, 404],
      [`/videos/${mine}.png`, 404],
      [`/videos/${theirs}.mp4`, 200],
      ["/engine-status", 403],
    ] as const)
      expect([path, (await get(path)).status]).toEqual([path, status]);
    const headers = { Cookie, Origin: url };
    const send = (id: string) => fetch(`${url}/callbacks/${id}/send`, { method: "POST", headers });
    expect([(await send(mine)).status, (await send(theirs)).status]).toEqual([404, 204]);
  });

  test("a page that does not exist names the account, and offers no page that it may not see", async () => {
    const { url, Cookie } = await openTwo();
    const open = (headers: Record<string, string>) => fetch(`${url}/nothing`, { headers });
    const reply = await open({ Cookie });
    const text = await reply.text();
    expect([reply.status, text.includes(">another</button>"), text.includes("/engine-status")]).toEqual([
      404,
      true,
      false,
    ]);
    expect(await (await open({})).text()).not.toMatch(/engine-status|popovertarget/);
  });

  test("is offered to manage what it has, and the owner all", async () => {
    const { url, get, make, link } = await openTwo();
    const managed = (html: string) =>
      [...html.matchAll(/href="\/(batches|callbacks|credits|engine-status)"/g)].map(([, name]) => name);
    const Cookie = await signIn({ link });
    const all = ["batches", "callbacks", "credits", "engine-status"];
    expect(managed(await (await fetch(url, { headers: { Cookie } })).text())).toEqual(all);
    expect(managed(await (await get("/")).text())).toEqual(["callbacks", "credits"]);
    await make({ prompt: "a whale" }, theirKey, labelled("shots.csv", 2));
    expect(managed(await (await get("/")).text())).toEqual(["batches", "callbacks", "credits"]);
  });

  /** Has the owner manage the accounts. */
  async function manage(url: string, path: string, body: object) {
    const headers = { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" };
    const reply = await fetch(`${url}/accounts${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    return (await reply.json()) as { api_key: string; base_url: string; page_url: string };
  }

  test("is told what it can type in a terminal of its own: a login at this page's address, and never --local", async () => {
    const { url, get, make, link } = await openTwo();
    const theirs = await make({ prompt: "a whale" }, theirKey, labelled("shots.csv", 2));
    const paths = ["/", "/?text=nothing", "/batches", "/batches/shots.csv", `/generations/${theirs}`];
    const Cookie = await signIn({ link });
    for (const path of paths) {
      const [own, owners] = await Promise.all([get(path), fetch(url + path, { headers: { Cookie } })]);
      const [text, ofOwner] = [await own.text(), await owners.text()];
      expect([path, text]).toEqual([path, expect.stringContaining(`vidgen login --base-url ${url}<`)]);
      expect([path, text]).toEqual([path, expect.not.stringContaining("--local")]);
      expect([path, ofOwner]).toEqual([path, expect.not.stringContaining("vidgen login")]);
    }
    expect(await (await get("/batches/shots.csv")).text()).toContain(`vidgen batch shots.csv --base-url ${url}`);
    expect(await (await get(`/generations/${theirs}`)).text()).toContain(`--base-url ${url}`);
    expect(await (await fetch(`${url}/batches/shots.csv`, { headers: { Cookie } })).text()).not.toContain(
      "vidgen batch",
    );
  });

  test("the link of a new account signs in once, to that account alone, until its key ends", async () => {
    const { url, store, mine } = await openTwo();
    const made = await manage(url, "", { name: "guest" });
    expect(made.base_url).toBe(url);
    expect(await (await fetch(made.page_url)).text()).toContain("signs you in as the account guest");
    const reply = await useLink(made.page_url);
    const get = (path: string) => fetch(url + path, { headers: { Cookie: cookieOf(reply) } });
    const text = await (await get("/")).text();
    expect(text).toContain("guest");
    expect(text).not.toContain("a fox of mine");
    expect((await get(`/generations/${mine}`)).status).toBe(404);
    expect((await get("/engine-status")).status).toBe(403);
    expect((await useLink(made.page_url)).status).toBe(401);
    await manage(url, "/revoke", { revoke: made.api_key });
    expect((await get("/")).status).toBe(401);
    expect(await store.account(hashKey(made.api_key))).toBeUndefined();
  });

  test("a disabled account's session, link and key are refused, its event stream ends, and they work again afterwards", async () => {
    const { url, get, signInWith } = await openTwo();
    const made = await manage(url, "", { name: "another" });
    const events = (await get("/events")).body;
    await manage(url, "/disable", { account: "another" });
    await events?.pipeTo(new WritableStream());
    const refused = [
      await get("/"),
      await fetch(made.page_url),
      await useLink(made.page_url),
      await signInWith(theirKey),
    ];
    for (const reply of refused)
      expect([reply.status, await reply.text()]).toEqual([401, expect.stringContaining("This account is disabled")]);
    expect((await get("/events")).status).toBe(401);
    await manage(url, "/enable", { account: "another" });
    expect([(await get("/")).status, (await useLink(made.page_url)).status]).toEqual([200, 200]);
  });

  test("an unused link ends with its key, and a new key of the account has its own", async () => {
    const { url } = await openTwo();
    const first = await manage(url, "", { name: "guest" });
    const second = await manage(url, "/rotate", { account: "guest" });
    const opened = await fetch(first.page_url);
    expect([opened.status, await opened.text()]).toEqual([401, expect.stringContaining("This link has expired")]);
    expect((await useLink(first.page_url)).status).toBe(401);
    expect((await useLink(second.page_url)).status).toBe(200);
  });

  test("is told of that account's changes alone", async () => {
    const { get, make } = await openTwo();
    const reader = (await get("/events")).body?.getReader();
    const mine = await make({});
    const theirs = await make({}, theirKey);
    let text = "";
    while (!text.includes(theirs)) text += new TextDecoder().decode((await reader?.read())?.value);
    await reader?.cancel();
    expect(text).not.toContain(mine);
    const changes = [...text.matchAll(/^data: (.*)$/gm)].map(([, change = ""]) => JSON.parse(change));
    expect(changes[0]).toEqual({ kind: "generation", id: theirs, account: "another" });
    for (const change of changes) expect(change).toMatchObject({ account: "another" });
  });

  test("is shown the models of that account alone, and the owner those of all", async () => {
    const { get, make, link } = await openTwo();
    await make({ model: "sora-2" });
    await make({ model: "veo-3.1" }, theirKey);
    const modelsIn = (text: string) => {
      const select = /<select name="model".*?<\/select>/s.exec(text)?.[0] ?? "";
      return [...select.matchAll(/<option value="([^"]+)"/g)].map(([, model]) => model);
    };
    expect(modelsIn(await (await get("/")).text())).toEqual(["veo-3.1", "wan-2.5"]);
    const owner = await signIn({ link });
    const page = await fetch(new URL("/", link), { headers: { Cookie: owner } });
    expect(modelsIn(await page.text())).toEqual(["sora-2", "veo-3.1", "wan-2.5"]);
  });

  test("gives a session that ends with the key, and of which no cookie has the key", async () => {
    const { get, store, reply } = await openTwo();
    expect(reply.headers.get("Set-Cookie")).toMatch(/; HttpOnly; SameSite=Strict$/);
    expect(reply.headers.get("Set-Cookie")).not.toContain(theirKey);
    await store.removeKeys({ keyHash: hashKey(theirKey) });
    expect((await get("/")).status).toBe(401);
    expect((await get("/events")).status).toBe(401);
  });

  test("that is wrong, or comes from another site, signs nobody in", async () => {
    const { signInWith, url } = await openTwo();
    const wrong = await signInWith("a-wrong-key");
    expect([wrong.status, wrong.headers.get("Set-Cookie")]).toEqual([401, null]);
    const text = await wrong.text();
    expect(text).toContain("does not know that key");
    expect(text).not.toContain("a-wrong-key");
    for (const Origin of ["https://other.example", "null"]) {
      const foreign = await signInWith(theirKey, Origin);
      expect([foreign.status, foreign.headers.get("Set-Cookie")]).toEqual([403, null]);
    }
    const headers = { Origin: url, "Content-Type": "application/json" };
    expect((await fetch(`${url}/`, { method: "POST", headers, body: "{}" })).status).toBe(415);
    const large = new URLSearchParams({ key: "x".repeat(20_000) });
    expect((await fetch(`${url}/`, { method: "POST", headers: { Origin: url }, body: large })).status).toBe(413);
  });
});

test("what is not there, and what cannot be read, is a page with a way out", async () => {
  const { get } = await openSignedIn();
  const look = async (path: string) => {
    const reply = await get(path);
    return [reply.status, (await reply.text()).includes('<a href="/">All generations</a>')];
  };
  for (const path of ["/nope", "/generations/none", "/generations/nope/more"])
    expect(await look(path)).toEqual([404, true]);
  for (const list of ["/", "/callbacks", "/credits"]) expect(await look(`${list}?before=garbage`)).toEqual([400, true]);
  for (const query of ["state=garbage", "from=garbage", "shown=garbage"])
    expect(await look(`/?${query}`)).toEqual([400, true]);
  for (const path of ["/api/nope", "/v1/nope"])
    expect((await get(path)).headers.get("Content-Type")).toMatch("application/json");
});

test("the files of the page have the hash of their content in their names, and are kept for good", async () => {
  const { get } = await openSignedIn();
  const names = [...(await (await get("/")).text()).matchAll(/\/assets\/[a-z]+-[0-9a-f]{12}\.(?:js|css|svg)/g)].map(
    String,
  );
  expect(new Set(names).size).toBe(3);
  for (const name of names) {
    const reply = await get(name);
    expect([reply.status, reply.headers.get("Cache-Control")]).toEqual([200, "public, max-age=31536000, immutable"]);
  }
  expect((await get("/assets/page-000000000000.js")).status).toBe(404);
});

test("the filter is by state, model and text, and newest first", async () => {
  const { get, make, start } = await openSignedIn();
  const ids = [
    await make({ prompt: "a fox 100% awake", model: "veo-3.1" }),
    await make({ prompt: "a bear" }),
    (await start({ prompt: "a fox asleep" })).id,
  ];
  const list = async (query: string) => {
    const text = await (await get(`/?${query}`)).text();
    return [...text.matchAll(/id="generation-([^"]*)"/g)].map(([, id]) => ids.indexOf(id ?? ""));
  };
  expect(await list("")).toEqual([2, 1, 0]);
  expect(await list("text=FOX")).toEqual([2, 0]);
  expect(await list("text=0%25")).toEqual([0]);
  expect(await list("text=_")).toEqual([]);
  expect(await list(`text=${ids[1]?.slice(0, 8)}`)).toEqual([1]);
  expect(await list("state=running")).toEqual([2]);
  expect(await list("model=veo-3.1&state=completed")).toEqual([0]);
  expect(await list(`from=${ids[1]}`)).toEqual([1, 0]);
  expect(await list(`before=${ids[2]}`)).toEqual([1, 0]);
});

test("a search that did not look at older ones says so, and continues there", async () => {
  const store = await openStore(":memory:");
  const asked: unknown[] = [];
  let last: string | undefined;
  const lastSearched: typeof store.lastSearched = async (query) => {
    asked.push(query);
    return last;
  };
  const page = await openTestPage({ store: { ...store, lastSearched } });
  const Cookie = await signIn(page);
  last = await page.make({ prompt: "a fox" });
  const get = async (path: string) => (await fetch(page.url + path, { headers: { Cookie } })).text();
  const text = await get(`/?text=zebra&from=${last}&shown=96&skip=48`);
  expect(text).toContain("Older ones were not searched.");
  expect(text).toContain(`href="/?text=zebra&amp;before=${last}"`);
  expect(asked).toEqual([{ text: "zebra", from: last }]);
  last = undefined;
  expect(await get("/?text=zebra")).not.toContain("not searched");
});

test("of the owner's free previews no price is shown, and another account sees what they cost it", async () => {
  const store = await openStore(":memory:");
  await store.addAccount({ name: "ci", keyHash: hashKey("a-key-of-ci"), creditsOf: () => 100 });
  const page = await openTestPage({ store, hasPaidPreviews: false });
  const id = await page.make({}, undefined, labelled("shots", 1));
  const Cookie = await signIn(page);
  const form = new URLSearchParams({ key: "a-key-of-ci" });
  const entered = await fetch(page.url, { method: "POST", headers: { Origin: page.url }, body: form });
  const theirs = entered.headers.getSetCookie()[0]?.split(";")[0] ?? "";
  const textOf = async (path: string, Cookie: string) => (await fetch(page.url + path, { headers: { Cookie } })).text();
  for (const path of ["/", "/new", `/generations/${id}`, "/batches", "/batches/shots"])
    expect([path, /\d credits?\b/.exec(await textOf(path, Cookie))]).toEqual([path, null]);
  expect(await textOf("/new", theirs)).toMatch(/ 10 credits[\s\S]*You have 100 credits\./);
});

test("an account sees its own batches alone", async () => {
  const store = await openStore(":memory:");
  const page = await openTestPage({ store });
  await page.make({}, undefined, labelled("of the owner", 1));
  await store.addAccount({ name: "ci", keyHash: hashKey("a-key-of-ci"), creditsOf: () => 100 });
  await page.make({}, "a-key-of-ci", labelled("of ci", 1));
  const form = new URLSearchParams({ key: "a-key-of-ci" });
  const entered = await fetch(page.url, { method: "POST", headers: { Origin: page.url }, body: form });
  const headers = { Cookie: entered.headers.getSetCookie()[0]?.split(";")[0] ?? "" };
  const list = await (await fetch(`${page.url}/batches`, { headers })).text();
  expect([list.includes("of ci"), list.includes("of the owner")]).toEqual([true, false]);
  const statusOf = async (label: string) => (await fetch(`${page.url}/batches/${label}`, { headers })).status;
  expect([await statusOf("of%20ci"), await statusOf("of%20the%20owner")]).toEqual([200, 404]);
});

test.each([
  "//evil.example",
  "/.//evil.example",
  "/\\evil.example",
  "https://evil.example/",
  "javascript:alert(1)",
  "evil.example",
])("whoever signs in by a key goes to no other site: %s", async (to) => {
  const { url } = await openTestPage();
  const body = new URLSearchParams({ key: apiKey, to });
  const reply = await fetch(url, { method: "POST", headers: { Origin: url }, body });
  expect(reply.status).toBe(200);
  const [, next = ""] = /url=([^"]*)"/.exec(await reply.text()) ?? [];
  expect(new URL(next, url).origin).toBe(url);
});

test("signing out is for the page itself", async () => {
  const { url, Cookie } = await openSignedIn();
  const signOut = (Origin: string) =>
    fetch(`${url}/sign-out`, { method: "POST", headers: { Cookie, Origin }, redirect: "manual" });
  expect((await signOut("https://evil.example")).status).toBe(403);
  const reply = await signOut(url);
  expect([reply.status, reply.headers.get("Location")]).toEqual([303, "/"]);
  expect(reply.headers.get("Set-Cookie")).toMatch(/^vidgen_page_\d+=; Max-Age=0; Path=\//);
});

describe("POST /generations", () => {
  const open = async (engine: Partial<Engine> = {}) => {
    const store = await openStore(":memory:");
    const page = await openTestPage({ store, engine });
    const own = { Cookie: await signIn(page), Origin: page.url, "Content-Type": "application/json" };
    const post = (body: object, headers: Record<string, string> = {}) =>
      fetch(`${page.url}/generations`, { method: "POST", headers: { ...own, ...headers }, body: JSON.stringify(body) });
    return { store, page, post };
  };
  const fox = { prompt: "a fox", model: "wan-2.5" };

  test("needs an Idempotency-Key, by which it is paid once, and a session, and comes from the page itself", async () => {
    const { store, post } = await open();
    expect([(await post(fox)).status, await paid(store)]).toEqual([400, []]);
    const key = { "Idempotency-Key": "page-1" };
    expect((await post(fox, { ...key, Origin: "https://evil.example" })).status).toBe(403);
    expect((await post(fox, { ...key, Origin: "null" })).status).toBe(403);
    expect((await post(fox, { ...key, Cookie: "" })).status).toBe(401);
    expect(await paid(store)).toEqual([]);
    const replies = await Promise.all([post(fox, key), post(fox, key)]);
    const started = await Promise.all(
      replies.map(async (reply) => (await reply.json()) as { id: string; isKnown: boolean }),
    );
    expect(new Set(started.map(({ id }) => id)).size).toBe(1);
    expect([started.map(({ isKnown }) => isKnown).sort(), await paid(store)]).toEqual([[false, true], [-10]]);
    expect((await post({ ...fox, prompt: "a bear" }, key)).status).toBe(422);
  });

  test("sends nothing that the command line would not send", async () => {
    const { store, post } = await open();
    const refusal = async (fields: object, key: string) => {
      const reply = await post({ ...fox, ...fields }, { "Idempotency-Key": key });
      return [reply.status, ((await reply.json()) as { error: { message: string } }).error.message];
    };
    expect(await refusal({ aspectRatio: "tall" }, "1")).toEqual([
      400,
      'aspectRatio must be width:height, such as 16:9, not "tall"',
    ]);
    expect((await refusal({ callback_url: "ftp://x.example" }, "2"))[1]).toMatch(/^callback_url must be an http/);
    expect((await refusal({ prompt: " " }, "3"))[0]).toBe(400);
    expect(await paid(store)).toEqual([]);
  });

  test("of an unclear one is answered with that one, and a new form says that it pays for another", async () => {
    const { store, page, post } = await open({ render: async () => ({ kind: "unclear", reason: "HTTP 502" }) });
    const [first, second] = [await post(fox, { "Idempotency-Key": "1" }), await post(fox, { "Idempotency-Key": "1" })];
    const { id } = (await first.json()) as { id: string };
    await expect.poll(async () => (await store.generation(id))?.error_code).toBe("unclear");
    const third = await post(fox, { "Idempotency-Key": "1" });
    expect([await second.json(), await third.json(), await paid(store)]).toEqual([
      { id, isKnown: true },
      { id, isKnown: true },
      [-10],
    ]);
    const form = await fetch(`${page.url}/new?from=${id}`, { headers: { Cookie: await signIn(page) } });
    expect(await form.text()).toContain("may have charged for it: check your account there");
    const other = await fetch(`${page.url}/new`, { headers: { Cookie: await signIn(page) } });
    expect(await other.text()).not.toContain("may have charged");
  });

  test("charges the account whose key has signed in, which sees no other one's request", async () => {
    const { store, page } = await open();
    const id = await page.make({ imageUrl: `data:image/png;base64,${Buffer.from(aPng(2, 2)).toString("base64")}` });
    await store.addAccount({ name: "ci", keyHash: hashKey("a-key-of-ci"), creditsOf: () => 15 });
    const form = new URLSearchParams({ key: "a-key-of-ci" });
    const entered = await fetch(page.url, { method: "POST", headers: { Origin: page.url }, body: form });
    const Cookie = entered.headers.getSetCookie()[0]?.split(";")[0] ?? "";
    const headers = { Cookie, Origin: page.url, "Content-Type": "application/json" };
    const start = (key: string) =>
      fetch(`${page.url}/generations`, {
        method: "POST",
        headers: { ...headers, "Idempotency-Key": key },
        body: JSON.stringify(fox),
      });
    expect([(await start("1")).status, await store.balance("ci"), (await start("2")).status]).toEqual([200, 5, 402]);
    const paths = [
      ...[`/generations/${id}/request`, `/generations/${id}/images/0`],
      ...[`/new?from=${id}`, `/new?continue=${id}`],
    ];
    const looks = paths.map((path) => fetch(page.url + path, { headers }));
    expect((await Promise.all(looks)).map(({ status }) => status)).toEqual([404, 404, 404, 404]);
  });
});

test.each([
  ["that a provider's model refused", "refused", "<p>Try another prompt or model.</p>"],
  [
    "that the engine lost",
    "lost",
    "<p>The prompt is not the cause: once the engine works, the same command starts a new generation.</p>",
  ],
  ["whose kind nobody knows", undefined, undefined],
] as const)("the page of a failed generation %s shows what to do", async (_, failure, hint) => {
  const store = await openStore(":memory:");
  const { start, link, url } = await openTestPage({ store });
  const Cookie = await signIn({ link });
  const { id, running } = await start();
  running.fail("no");
  await expect.poll(async () => (await store.generation(id))?.status).toBe("failed");
  const generation: typeof store.generation = store.generation;
  store.generation = async (asked) => {
    const stored = await generation(asked);
    return stored && { ...stored, failure };
  };
  const html = await (await fetch(`${url}/generations/${id}`, { headers: { Cookie } })).text();
  expect(html).toContain(failure === "refused" ? "The engine refused this" : "This generation failed");
  if (hint === undefined) expect(html).not.toMatch(/another prompt|not the cause/);
  else expect(html).toContain(hint);
});

test("a generation whose engine has completed it says that its video cannot be fetched, in the list and on its own page", async () => {
  const { start, link, url } = await openTestPage();
  const Cookie = await signIn({ link });
  const { id, running } = await start();
  running.progress(100, undefined, "its video cannot be fetched: HTTP 404");
  for (const page of [url, `${url}/generations/${id}`])
    expect(await (await fetch(page, { headers: { Cookie } })).text()).toContain(
      `<span id="percent-${id}">100 %, completed at its engine; its video cannot be fetched: HTTP 404</span>`,
    );
  running.complete();
});

test.each([
  [0, "about 2 min left"],
  [70, "about 50 s left"],
  [109, "about 20 s left"],
  [111, "a few seconds left"],
  [124, "a few seconds left"],
  [239, "a few seconds left"],
  [241, "longer than usual"],
])("after %i s of usually 120, which may be 240, the time left is %j", (seconds, text) => {
  const at = (after: number) => new Date(Date.UTC(2026, 0, 1) + after * 1_000);
  expect(leftText({ until: at(120).toISOString(), late: at(240).toISOString() }, at(seconds))).toBe(text);
});

test("the expected end is the median of the times, and it is late after twice that of the slowest tenth", async () => {
  const begun_at = "2026-01-01T00:00:00.000Z";
  const at = (seconds: number) => new Date(Date.parse(begun_at) + seconds * 1_000).toISOString();
  const made = { state: "completed", model: "wan-2.5", duration: 5, engine: "gpu", begun_at } as GenerationSummary;
  const times = Array.from({ length: 20 }, (_, i) => ({ ...made, completed_at: at(100 + 10 * i) }));
  const forecast = createForecast({ list: async () => times });
  expect(await forecast({ ...made, state: "running" })).toEqual({ until: at(200), late: at(2 * 280) });
});

test("a running generation shows the time left, by the times of the same model and length at its engine", async () => {
  const store = await openStore(":memory:");
  const { make, start, link, url } = await openTestPage({ store });
  const Cookie = await signIn({ link });
  const leftOf = async (id: string) => {
    const html = await (await fetch(`${url}/generations/${id}`, { headers: { Cookie } })).text();
    const list = await (await fetch(url, { headers: { Cookie } })).text();
    return [html, list].map((text) => /<time datetime="[^"]*" data-late="[^"]*">(.*?)<\/time>/.exec(text)?.[1]);
  };
  const other = await start({ model: "wan-2.5", duration: 5 });
  expect(await leftOf(other.id)).toEqual([undefined, undefined]);
  other.running.complete();
  const list: typeof store.list = store.list;
  store.list = async (query) =>
    (await list(query)).map((each) =>
      each.completed_at === null || each.begun_at === null
        ? each
        : { ...each, completed_at: new Date(Date.parse(each.begun_at) + 100_000).toISOString() },
    );
  await make({ model: "wan-2.5", duration: 2 });
  const same = await start({ model: "wan-2.5", duration: 2 });
  expect(await leftOf(same.id)).toEqual(["about 2 min left", "about 2 min left"]);
  const longer = await start({ model: "wan-2.5", duration: 10 });
  expect((await leftOf(longer.id))[0]).toBeUndefined();
});
