import { setImmediate } from "node:timers/promises";
import { Hono, type MiddlewareHandler } from "hono";
import { getCookie } from "hono/cookie";
import { VidgenError } from "../../errors.ts";
import { createMutex } from "../../mutex.ts";
import { isUuid } from "../../protocol/id.ts";
import { isData } from "../../protocol/url.ts";
import { localAccount } from "../announcement.ts";
import { findAccount, findDisabled, hashKey } from "../api/accounts.ts";
import { findCancelFault } from "../api/cancel.ts";
import { type ApiEnv, errorResponse, readBody, refuse, retryAfter } from "../http/message.ts";
import { createMedia } from "../media/media.ts";
import { pictureFormat, readData } from "../media/picture.ts";
import { isUnavailable } from "../observe/problem.ts";
import type { Change } from "../store/change.ts";
import type { DeliveryState } from "../store/deliveries.ts";
import { beginningOf, type GenerationState, listImages, type StoredGeneration, stateOf } from "../store/generations.ts";
import type { GenerationFilter, Kinds } from "../store/reports.ts";
import type { Store } from "../store/store.ts";
import { makeAgain } from "./again.ts";
import { type AssetPaths as AssetPathNames, createAssets } from "./assets.ts";
import { addBatches } from "./batches.tsx";
import { type CallbackFilter, CallbacksPage } from "./callbacks.tsx";
import { addComparison } from "./compare.tsx";
import { addComposer } from "./composer.tsx";
import { addConfirmed } from "./confirm.tsx";
import { CreditsPage } from "./credits.tsx";
import { createEngineChecks } from "./engine-checks.ts";
import { EnginesPage } from "./engines.tsx";
import { Gallery, readCards } from "./gallery.tsx";
import { GenerationPage } from "./generation.tsx";
import { AssetPaths, LinkPage, SignedInPage, SignInPage, Visitor } from "./layout.tsx";
import { BadAddress, Missing, NotFound, OwnersAlone, Unavailable } from "./messages.tsx";
import type { PageOptions, PageParts, Send } from "./parts.ts";
import { addressBefore, olderAddress, readList, readValue } from "./query.ts";
import { createForecast } from "./remaining.ts";
import type { SignedToken } from "./session.ts";
import {
  accountOf,
  findShown,
  isNavigation,
  isShownTo,
  type PageContext,
  requestUrl,
  terminalOf,
  uuid,
  uuidLength,
} from "./visitor.ts";

/** The number of rows in each table of spending. */
const spendingRows = 14;

/** Creates the routes of the page. All but the sign-in and the assets need a session. */
export function createPage(options: PageOptions): Hono<ApiEnv> {
  const { store, queue, clock, changes, sign } = options;
  const app = new Hono<ApiEnv>();
  const checkEngines = createEngineChecks(options.engines, clock);
  const assets = createAssets(options.assets ?? new URL("./page/", import.meta.url), headers);
  const send = createSend(assets.paths, options);
  const media = createMedia({ ...options, hasRedirects: false, headers: mediaHeaders });
  const signedIn = requireSession(options, send);
  const fromPage = [signedIn, requireOwnOrigin(options)] as const;
  const parts: PageParts = { app, options, send, signedIn, fromPage };
  app.use((c, next) => {
    c.set("route", "page");
    return next();
  });
  app.get("/assets/:name", assets.route);
  addComposer(parts);
  addComparison(parts);
  addBatches(parts);
  addConfirmed(parts);

  app.post("/", requireOwnOrigin(options), async (c) => {
    const body = await readBody(c, { maxBytes: 10_000, types: ["application/x-www-form-urlencoded"] });
    const form = new URLSearchParams(Buffer.from(body).toString());
    const to = ownAddress(form.get("to"), requestUrl(c, options));
    const [sessions, now] = [await options.sessions(), clock.date()];
    const token = form.get("token");
    const key = form.get("key")?.trim() ?? "";
    const signIn = (keyHash: string | undefined) => {
      const cookie = sessions.begin(keyHash, requestUrl(c, options), now);
      return send(c, <SignedInPage to={to} />, 200, { "Set-Cookie": cookie });
    };
    if (token !== null) {
      const link = sessions.readLink(token, now);
      const isUsable = typeof link !== "string" && (await accountOfToken(link, store)) !== undefined;
      const isFirst = isUsable && (await store.endToken(link, now.toISOString()));
      if (isFirst) return signIn(link.keyHash);
      const invalid = (await isDisabled(link, store)) ? "account" : "link";
      return send(c, <SignInPage invalid={invalid} to={to} />, 401);
    }
    if ((await findAccount(store, key)) === undefined) {
      const isDisabled = (await findDisabled(store, key)) !== undefined;
      return send(c, <SignInPage invalid={isDisabled ? "account" : "key"} to={to} />, 401);
    }
    return signIn(hashKey(key));
  });

  app.post("/sign-out", requireOwnOrigin(options), async (c) => {
    const [sessions, now, address] = [await options.sessions(), clock.date(), requestUrl(c, options)];
    const session = sessions.read(c.req.header("Cookie"), address, now);
    if (session) await store.endToken(session, now.toISOString());
    c.header("Set-Cookie", sessions.noCookie(address));
    return c.redirect("/", 303);
  });

  app.get("/", signedIn, async (c) => {
    const { before, from, limit, skip } = readList(c, uuid);
    const filter = readFilter(c);
    const generations = await store.list({ ...filter, account: accountOf(c), before, from, limit });
    const searched = { ...filter, account: accountOf(c), before, from };
    const totals = await store.totals(searched);
    const cards = await readCards(generations.slice(skip), options);
    const older = olderAddress(c, generations, generations.at(-1)?.id);
    const last = older === undefined ? await store.lastSearched(searched) : undefined;
    const unsearched = last === undefined ? undefined : addressBefore(c, last);
    const isNewest = before === undefined;
    return send(c, <Gallery {...{ filter, cards, totals, isNewest, older, unsearched }} />);
  });

  app.get("/generations/:id", signedIn, async (c) => {
    const id = c.req.param("id");
    const generation = await findShown(c, store, id);
    if (!generation) return send(c, <Missing />, 404);
    const [delivery] = await store.deliveries({ generations: [id], limit: 1 });
    const payments = await store.ledger({ generation: id, limit: 2 });
    const again = makeAgain(generation, terminalOf(c, options));
    const list = { ...readFilter(c), account: accountOf(c), limit: 1 };
    const [newer] = await store.list({ ...list, after: id });
    const [older] = await store.list({ ...list, before: id });
    const { search } = new URL(c.req.url);
    const neighbours = {
      previous: newer && `/generations/${newer.id}${search}`,
      next: older && `/generations/${older.id}${search}`,
    };
    const progress = queue.progressOf(id);
    const until = await findEnd(generation, store);
    const cancelFault = generation.status === "processing" ? findCancelFault(generation, options) : undefined;
    const shown = { generation, again, progress, until, cancelFault, delivery, payments, ...neighbours, sign };
    return send(c, <GenerationPage {...shown} now={clock.date()} />);
  });

  app.get("/generations/:id/images/:number", signedIn, async (c) => {
    const generation = await findShown(c, store, c.req.param("id"));
    const images = generation ? listImages(await store.images(generation.id)) : [];
    const picture = readPicture(images[Number(c.req.param("number"))]);
    if (!picture) return send(c, <Missing />, 404);
    return c.body(picture.bytes, 200, { ...mediaHeaders, "Content-Type": `image/${picture.format}` });
  });

  app.get("/callbacks", signedIn, async (c) => {
    const { before, limit, skip } = readList(c, /^msg_[0-9a-f]+$/);
    const filter = readCallbackFilter(c);
    const own = { ...filter, account: accountOf(c) };
    const deliveries = await store.deliveries({ ...own, before, limit });
    const totals = await store.deliveryTotals(own);
    const older = olderAddress(c, deliveries, deliveries.at(-1)?.id);
    return send(
      c,
      <CallbacksPage {...{ filter, totals, older, sign }} deliveries={deliveries.slice(skip)} now={clock.date()} />,
    );
  });

  app.post("/callbacks/send", ...fromPage, async (c) => {
    const { host } = readCallbackFilter(c);
    await store.resendGivenUp({ host, account: accountOf(c) }, clock.date().toISOString());
    return c.body(null, 204);
  });

  app.post("/callbacks/:id/send", ...fromPage, async (c) => {
    const id = c.req.param("id");
    if (!(await findShown(c, store, id)) || !(await store.resend(id, clock.date().toISOString())))
      throw refuse(404, "not_found", "this generation has no callback");
    return c.body(null, 204);
  });

  app.get("/credits", signedIn, async (c) => {
    const { before, limit, skip } = readList(c, /^[1-9]\d{0,14}$/);
    const account = accountOf(c);
    const entries = await store.ledger({ before: before === undefined ? undefined : Number(before), account, limit });
    const older = olderAddress(c, entries, entries.at(-1)?.number);
    const balances = (await store.accounts()).filter((each) => isShownTo(c, each.account));
    const spending = await store.spending({ account, limit: spendingRows });
    return send(c, <CreditsPage {...{ balances, spending, entries, skip, older }} now={clock.date()} />);
  });

  app.get("/engine-status", signedIn, async (c) => {
    if (accountOf(c) !== undefined) return send(c, <OwnersAlone />, 403);
    const checks = await checkEngines();
    const engines = options.engines.flatMap((engine) => {
      const check = checks.get(engine);
      return check ? { engine, check, outage: queue.outageOf(engine) } : [];
    });
    const counts = await options.metrics?.counts();
    const retired = await queue.retired();
    return send(
      c,
      <EnginesPage {...{ engines, counts, retired }} waiting={await queue.waiting()} now={clock.date()} />,
    );
  });

  // hono runs this handler for HEAD too, and without a reader the stream would never end.
  app.get("/events", signedIn, (c) => {
    if (c.req.method === "HEAD") return c.body(null);
    const own = accountOf(c);
    const isShown = ({ kind, account }: Change) => own === undefined || account === own || kind === "missed";
    return changes.stream(c, { account: own ?? localAccount, clock, isShown });
  });
  app.get("/videos/:file", signedIn, async (c) => {
    const { req, env } = c;
    const id = req.param("file").slice(0, uuidLength);
    if (isUuid(id) && !(await isOwn(c, store, id))) return send(c, <Missing />, 404);
    const url = new URL(`/${req.param("file")}`, req.url);
    return media(new Request(url, { method: req.method, headers: req.raw.headers }), env);
  });
  app.get("*", async (c, next) => {
    if (!isNavigation(c)) return next();
    const account = await readSession(c, options);
    if (account !== undefined) c.set("account", account);
    return send(c, <NotFound />, 404);
  });
  app.onError((error, c) => {
    if (error instanceof VidgenError && error.code === "usage") return send(c, <BadAddress />, 400);
    if (isUnavailable(error)) return send(c, <Unavailable />, 503, retryAfter);
    return errorResponse(error, options.reportProblem);
  });
  return app;
}

/** No other site can frame the page, run code in it, or learn its URL. The page loads nothing from elsewhere. */
const headers = {
  "Content-Security-Policy": [
    ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "media-src 'self'"],
    ...["connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"],
  ].join("; "),
  // With "no-referrer", a browser would send "Origin: null" with forms.
  "Referrer-Policy": "same-origin",
  "X-Frame-Options": "DENY",
  "X-Content-Type-Options": "nosniff",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-store",
};

/** The bytes of a video or an image never change. */
const mediaHeaders = { ...headers, "Cache-Control": "private, max-age=86400, immutable" };

/** The owner can manage the callbacks, batches and credits of all accounts. */
const allKinds: Kinds = { batches: true, callbacks: true, credits: true };

function createSend(findPaths: () => Promise<AssetPathNames>, options: PageOptions): Send {
  return async (c, page, status, added = {}) => {
    for (const [name, value] of Object.entries({ ...headers, ...added })) c.header(name, value);
    const paths = await findPaths();
    const { account } = c.var;
    const isOwner = account === localAccount;
    const terminal = account === undefined ? undefined : terminalOf(c, options);
    // 503 is the page that says that the database cannot be reached.
    const hasOwnKinds = account !== undefined && !isOwner && status !== 503;
    const ownKinds = hasOwnKinds ? await options.store.kindsOf(account) : undefined;
    const kinds = isOwner ? allKinds : ownKinds;
    const visitor = { isOwner, account, kinds, terminal, theme: getCookie(c, "vidgen_theme") };
    const document = (
      <AssetPaths.Provider value={paths}>
        <Visitor.Provider value={visitor}>{page}</Visitor.Provider>
      </AssetPaths.Provider>
    );
    return c.html(`<!doctype html>${document}`, status);
  };
}

function requireSession(options: PageOptions, send: Send): MiddlewareHandler<ApiEnv> {
  const { clock } = options;
  const mutex = createMutex();
  return async (c, next) => {
    c.set("isRoutine", true);
    await mutex(yieldToOtherRequests);
    const sessions = await options.sessions();
    const now = clock.date();
    const token = c.req.path === "/" ? c.req.query("token") : undefined;
    const link = token === undefined ? undefined : sessions.readLink(token, now);
    const linked = typeof link === "object" ? await accountOfToken(link, options.store) : undefined;
    // Only the POST of this page uses up the link, because programs prefetch links.
    if (token !== undefined && linked !== undefined) return send(c, <LinkPage token={token} account={linked} />);
    const account = await readSession(c, options);
    if (account === undefined) {
      const token = link ?? sessions.read(c.req.header("Cookie"), requestUrl(c, options), now) ?? "unknown";
      const invalidLink = link === undefined || link === "unknown" ? undefined : "link";
      const invalid = (await isDisabled(token, options.store)) ? "account" : invalidLink;
      return send(c, <SignInPage invalid={invalid} to={withoutToken(c)} />, 401);
    }
    c.set("account", account);
    return next();
  };
}

/** Returns the account whose session the request has; `undefined` without a session. */
async function readSession(c: PageContext, options: PageOptions): Promise<string | undefined> {
  const sessions = await options.sessions();
  const session = sessions.read(c.req.header("Cookie"), requestUrl(c, options), options.clock.date());
  const account = session && (await accountOfToken(session, options.store));
  if (account !== undefined && session?.keyHash !== undefined)
    options.store.recordKeyUse(session.keyHash, options.clock.date());
  return account;
}

/**
 * Hundreds of open pages may update at the same moment, and must not delay other requests. Each turn of the event loop accepts one connection and
 * handles the requests that have arrived.
 */
async function yieldToOtherRequests(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await setImmediate();
}

/** The address of a request, without the token of a link. */
function withoutToken({ req }: PageContext): string {
  const query = new URLSearchParams(req.query());
  query.delete("token");
  return query.size === 0 ? req.path : `${req.path}?${query}`;
}

/** The full URL of an address of this site; "/" for another site, as in the path "//example.com". */
function ownAddress(text: string | null, { origin }: URL): string {
  const url = URL.canParse(text ?? "", origin) ? new URL(text ?? "", origin) : undefined;
  return url?.origin === origin ? url.href : "/";
}

/** Returns the account of a link or a session; `undefined` if the link was used, the session was signed out, or the key was revoked. */
async function accountOfToken(
  { hash, keyHash }: SignedToken,
  store: Pick<Store, "account" | "hasTokenEnded">,
): Promise<string | undefined> {
  if (await store.hasTokenEnded(hash)) return undefined;
  return keyHash === undefined ? localAccount : store.account(keyHash);
}

/** Whether a link or a session is refused because its account is disabled. */
async function isDisabled(token: SignedToken | string, store: Pick<Store, "hasTokenEnded" | "keyOwner">) {
  if (typeof token === "string" || token.keyHash === undefined || (await store.hasTokenEnded(token.hash))) return false;
  return (await store.keyOwner(token.keyHash)) !== undefined;
}

/** Refuses requests from other sites: a browser sends the Origin header with each request that is not a GET. */
function requireOwnOrigin(options: PageOptions): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    if (c.req.header("Origin") !== requestUrl(c, options).origin)
      throw refuse(403, "forbidden_origin", "only the page itself may do this");
    await next();
  };
}

/** When a running generation should end, if that is known. */
function findEnd(generation: StoredGeneration, store: Pick<Store, "list">): Promise<string | undefined> {
  const { model, duration } = generation.request;
  return createForecast(store)({
    state: stateOf(generation),
    model,
    duration,
    ...beginningOf(generation.checkpoint),
  });
}

function readFilter(c: PageContext): GenerationFilter {
  const state = readValue(c, "state", /^(queued|running|completed|failed)$/) as GenerationState | undefined;
  const isStarred = readValue(c, "starred", /^1$/) === "1" || undefined;
  return { state, model: readValue(c, "model"), text: readValue(c, "text"), label: readValue(c, "label"), isStarred };
}

function readCallbackFilter(c: PageContext): CallbackFilter {
  const state = readValue(c, "state", /^(waiting|delivered|given_up)$/) as DeliveryState | undefined;
  return { state, host: readValue(c, "host") };
}

/** Decodes a `data:` image of a request. Only bytes that are a picture are accepted: a browser could run other types. */
function readPicture(source: string | undefined) {
  if (source === undefined || !isData(source)) return undefined;
  try {
    const bytes = readData(source, "the image");
    const format = pictureFormat(bytes);
    return format && { bytes, format };
  } catch {
    // An invalid `data:` URL is not a picture.
    return undefined;
  }
}

/** Whether this visitor may see a generation. */
async function isOwn(c: PageContext, store: Pick<Store, "generation">, id: string): Promise<boolean> {
  if (accountOf(c) === undefined) return true;
  const generation = await store.generation(id);
  return generation !== undefined && isShownTo(c, generation.account);
}
