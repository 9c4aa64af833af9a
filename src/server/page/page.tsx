import { readFile } from "node:fs/promises";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import type { Child } from "hono/jsx";
import type { Clock } from "../../io.ts";
import { type ApiEnv, errorResponse, refuse, retryAfter } from "../api/message.ts";
import type { Queue } from "../jobs/queue.ts";
import { createMedia } from "../media/media.ts";
import type { MediaStore } from "../media/media-store.ts";
import type { Store } from "../store/store.ts";
import { isUnavailable, type OnTrouble } from "../trouble.ts";
import { makeAgain } from "./again.ts";
import { CallbacksPage, type Sign } from "./callbacks.tsx";
import { CreditsPage } from "./credits.tsx";
import type { Changes } from "./events.ts";
import { type Filter, Gallery } from "./gallery.tsx";
import { GenerationPage } from "./generation.tsx";
import { Message, SignedInPage, SignInPage } from "./layout.tsx";
import type { Sessions } from "./session.ts";

export type PageOptions = {
  store: Store;
  queue: Pick<Queue, "progressOf">;
  videos: MediaStore;
  sign: Sign;
  changes: Changes;
  sessions: Sessions;
  clock: Clock;
  onTrouble: OnTrouble;
  /** The address under which browsers reach it, where that is not what they ask for: behind a proxy. */
  publicUrl?: string | undefined;
  /** The folder of page.js, page.css and icon.svg. */
  assets?: URL;
};

type PageContext = Context<ApiEnv>;

/** How many entries a list has at first, and "Show older" adds. */
const perPage = 48;

/** Returns the routes of the page: what the service's owner sees in a browser. All but the assets need a session. */
export function createPage(options: PageOptions): Hono<ApiEnv> {
  const { store, queue, clock, changes, sign } = options;
  const app = new Hono<ApiEnv>();
  const { assets = new URL("./page/", import.meta.url) } = options;
  const media = createMedia({ ...options, hasDirectives: false, headers: mediaHeaders });
  app.get("/assets/:name{page\\.js|page\\.css|icon\\.svg}", (c) => sendAsset(c, assets));
  for (const path of ["/", "/generations/*", "/callbacks/*", "/credits", "/events", "/videos/*"])
    app.get(path, requireSession(options));

  app.get("/", async (c) => {
    const { before, ids, ...filter } = readQuery(c);
    const generations = await store.list({ ...filter, before, ids, limit: ids?.length ?? perPage });
    const now = clock.date();
    const cards = generations.map((generation) => ({ generation, percent: queue.progressOf(generation.id), now }));
    const older = olderAddress(c, generations.length, generations.at(-1)?.id);
    return send(c, <Gallery filter={filter} cards={cards} totals={await store.totals()} older={older} />);
  });

  app.get("/generations/:id", async (c) => {
    const id = c.req.param("id");
    const generation = isId(id) ? await store.generation(id) : undefined;
    if (!generation) return send(c, <Missing />, 404);
    const [delivery] = await store.deliveries({ generations: [id], limit: 1 });
    const payments = await store.ledger({ generation: id, limit: 2 });
    // `--local` finds the service of this machine's folder.
    const isLocal = options.publicUrl === undefined && !store.isShared;
    const again = makeAgain(generation, { baseUrl: addressOf(c, options).origin, isLocal });
    const shown = { generation, again, percent: queue.progressOf(id), delivery, payments, sign, now: clock.date() };
    return send(c, <GenerationPage {...shown} />);
  });

  app.get("/callbacks", async (c) => {
    const { before, ids } = readQuery(c);
    const deliveries = await store.deliveries({ before, generations: ids, limit: ids?.length ?? perPage });
    const older = olderAddress(c, deliveries.length, deliveries.at(-1)?.id);
    return send(c, <CallbacksPage deliveries={deliveries} older={older} sign={sign} now={clock.date()} />);
  });

  app.post("/callbacks/:id/send", requireSession(options), requireOwnOrigin(options), async (c) => {
    const id = c.req.param("id");
    const delivery = isId(id) ? await store.resend(id, clock.date().toISOString()) : undefined;
    if (!delivery) throw refuse(404, "not_found", "this generation has no callback");
    return c.body(null, 204);
  });

  app.get("/credits", async (c) => {
    const before = Number(c.req.query("before"));
    const entries = await store.ledger({ before: before > 0 ? before : undefined, limit: perPage });
    const older = olderAddress(c, entries.length, entries.at(-1)?.number);
    const balances = await store.balances();
    return send(c, <CreditsPage balances={balances} entries={entries} older={older} now={clock.date()} />);
  });

  // hono answers HEAD by the handler of GET, and nobody would end a stream without a reader.
  app.get("/events", (c) => (c.req.method === "HEAD" ? c.body(null) : changes.stream(c, clock)));
  app.get("/videos/:file", ({ req, env }) => {
    const url = new URL(`/${req.param("file")}`, req.url);
    return media(new Request(url, { method: req.method, headers: req.raw.headers }), env);
  });
  app.onError((error, c) => {
    if (isUnavailable(error)) return send(c, <Unavailable />, 503, retryAfter);
    return errorResponse(error, options.onTrouble);
  });
  return app;
}

/** No other site can frame the page, run code in it, or learn its address; nothing but this service is loaded. */
const headers = {
  "Content-Security-Policy": [
    ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "media-src 'self'"],
    ...["connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"],
  ].join("; "),
  "Referrer-Policy": "no-referrer",
  "X-Frame-Options": "DENY",
  "X-Content-Type-Options": "nosniff",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-store",
};

/** The bytes of a video never change. */
const mediaHeaders = { ...headers, "Cache-Control": "private, max-age=86400, immutable" };

function send(
  c: PageContext,
  page: Child,
  status: 200 | 401 | 404 | 503 = 200,
  added: Record<string, string> = {},
): Response | Promise<Response> {
  for (const [name, value] of Object.entries({ ...headers, ...added })) c.header(name, value);
  return c.html(`<!doctype html>${page}`, status);
}

/** The address under which the browser has asked. */
function addressOf(c: PageContext, { publicUrl = c.req.url }: Pick<PageOptions, "publicUrl">): URL {
  return new URL(publicUrl);
}

function requireSession(options: PageOptions): MiddlewareHandler<ApiEnv> {
  const { sessions, clock } = options;
  return async (c, next) => {
    if (c.env.log) c.env.log.isRoutine = true;
    const now = clock.date();
    const address = addressOf(c, options);
    const token = c.req.path === "/" ? c.req.query("token") : undefined;
    const isLink = token !== undefined && sessions.isToken(token, now);
    if (!isLink && !sessions.isSignedIn(c.req.header("Cookie"), address, now)) return send(c, <SignInPage />, 401);
    // Each look at a page makes the session longer.
    if (c.req.header("Sec-Fetch-Mode") === "navigate" || isLink) c.header("Set-Cookie", sessions.cookie(address, now));
    return isLink ? send(c, <SignedInPage />) : next();
  };
}

/** A browser names the origin of every request that is not a GET: another one, or `null`, must not change anything. */
function requireOwnOrigin(options: PageOptions): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    if (c.req.header("Origin") !== addressOf(c, options).origin)
      throw refuse(403, "forbidden_origin", "only the page itself may do this");
    await next();
  };
}

async function sendAsset(c: PageContext, folder: URL): Promise<Response> {
  const name = c.req.param("name") ?? "";
  const types = { js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
  const type = types[name.split(".")[1] as keyof typeof types];
  if (c.env.log) c.env.log.isRoutine = true;
  return c.body(await readFile(new URL(name, folder)), 200, {
    ...headers,
    "Content-Type": `${type}; charset=utf-8`,
    "Cache-Control": "no-cache",
  });
}

function readQuery({ req }: PageContext): Filter & { before: string | undefined; ids: string[] | undefined } {
  const read = (name: string) => req.query(name)?.replaceAll("\0", "").trim() || undefined;
  const ids = read("ids")?.split(",");
  return { status: read("status"), model: read("model"), text: read("text"), before: read("before"), ids };
}

/** A full page is followed by another one, which may be empty. */
function olderAddress(c: PageContext, count: number, last: string | number | undefined): string | undefined {
  if (count < perPage || last === undefined) return undefined;
  const query = new URLSearchParams(c.req.query());
  query.delete("ids");
  query.set("before", String(last));
  return `${c.req.path}?${query}`;
}

/** SQLite would end another text at its first NUL. */
function isId(text: string): boolean {
  return /^[0-9a-f-]{36}$/i.test(text);
}

function Unavailable() {
  return (
    <Message title="The database cannot be reached">
      <p>Nothing is lost: what was accepted goes on once the database is back. Reload this page then.</p>
    </Message>
  );
}

function Missing() {
  return (
    <Message title="There is no such generation">
      <p>
        <a href="/">All generations</a>
      </p>
    </Message>
  );
}
