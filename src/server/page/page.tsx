import { setImmediate } from "node:timers/promises";
import { Hono, type MiddlewareHandler } from "hono";
import { getCookie } from "hono/cookie";
import { VidgenError } from "../../errors.ts";
import { createMutex } from "../../mutex.ts";
import { isUuid } from "../../protocol/id.ts";
import { localAccount } from "../announcement.ts";
import { findAccount, findDisabled, hashKey } from "../api/accounts.ts";
import { type ApiEnv, errorResponse, refuse, retryAfter } from "../http/message.ts";
import { createMedia } from "../media/media.ts";
import { isUnavailable } from "../observe/problem.ts";
import type { Change } from "../store/change.ts";
import type { Kinds } from "../store/reports.ts";
import type { Store } from "../store/store.ts";
import { type AssetPaths, createAssets } from "./assets.ts";
import { addBatches } from "./batches.tsx";
import { addCallbacks } from "./callbacks.tsx";
import { addComparison } from "./compare.tsx";
import { addComposer } from "./composer.tsx";
import { addCancelAndDelete } from "./confirm.tsx";
import { addCredits } from "./credits.tsx";
import { addEngines } from "./engines.tsx";
import { addGallery } from "./gallery.tsx";
import { addGeneration } from "./generation.tsx";
import { headers, mediaHeaders, pageHeader } from "./headers.ts";
import { AssetPathsContext, LinkPage, SignedInPage, SignInPage, VisitorContext } from "./layout.tsx";
import { InvalidAddress, NoGeneration, NothingHere, Unavailable } from "./messages.tsx";
import type { PageOptions, PageParts, Send } from "./parts.ts";
import { readForm } from "./query.ts";
import type { SignedToken } from "./session.ts";
import { accountOf, maySee, type PageContext, requestUrl, terminalOf, uuidLength } from "./visitor.ts";

/** Creates the routes of the page. All except the sign-in and the assets need a session. */
export function createPage(options: PageOptions): Hono<ApiEnv> {
  const { store, clock, changes } = options;
  const app = new Hono<ApiEnv>();
  const assets = createAssets(options.assets ?? new URL("./page/", import.meta.url), headers);
  const send = createSend(assets.paths, options);
  const media = createMedia({ ...options, hasRedirects: false, headers: mediaHeaders });
  const signedIn = requireSession(options, send);
  const fromPage = [signedIn, requireOwnOrigin(options)] as const;
  const parts: PageParts = { app, options, send, signedIn, fromPage };
  app.use((c, next) => {
    c.set("route", "page");
    // Before anything is read: a change that is read as well is only fetched once more.
    c.set("version", changes.version());
    return next();
  });
  app.get("/assets/:name", assets.route);
  addGallery(parts);
  addGeneration(parts);
  addComposer(parts);
  addComparison(parts);
  addCancelAndDelete(parts);
  addBatches(parts);
  addCallbacks(parts);
  addCredits(parts);
  addEngines(parts);

  app.post("/", requireOwnOrigin(options), async (c) => {
    const form = await readForm(c, 10_000);
    const to = sameSiteUrl(form.get("to"), requestUrl(c, options));
    const [sessions, now] = [await options.sessions(), clock.date()];
    const token = form.get("token");
    const key = form.get("key")?.trim() ?? "";
    const signIn = (keyHash: string | undefined) => {
      const cookie = sessions.createCookie(keyHash, requestUrl(c, options), now);
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
    const account = c.req.query("everywhere") === undefined ? undefined : await readSession(c, options);
    if (account !== undefined) await store.endSessions(account, sessions.latestEnd(now));
    if (session) await store.endToken(session, now.toISOString());
    c.header("Set-Cookie", sessions.clearCookie(address));
    return c.redirect("/", 303);
  });

  // hono runs this handler for HEAD too, and without a reader the stream would never end.
  app.get("/events", signedIn, (c) => {
    if (c.req.method === "HEAD") return c.body(null);
    const own = accountOf(c);
    const isShown = ({ kind, account }: Change) => own === undefined || account === own || kind === "missed";
    // An outage of the database ends no stream.
    const isAllowed = () => readSession(c, options).then((account) => account !== undefined, isUnavailable);
    const since = c.req.query("since");
    return changes.stream(c, { account: own ?? localAccount, since, clock, isShown, isAllowed });
  });
  app.get("/videos/:file", signedIn, async (c) => {
    const { req, env } = c;
    const id = req.param("file").slice(0, uuidLength);
    if (isUuid(id) && !(await maySeeGeneration(c, store, id))) return send(c, <NoGeneration />, 404);
    const url = new URL(`/${req.param("file")}`, req.url);
    return media(new Request(url, { method: req.method, headers: req.raw.headers }), env);
  });
  app.get("*", async (c, next) => {
    if (/^\/(api|v1)\//.test(c.req.path)) return next();
    const account = await readSession(c, options);
    if (account !== undefined) c.set("account", account);
    return send(c, <NothingHere title="There is no such page" />, 404);
  });
  app.onError((error, c) => {
    if (error instanceof VidgenError && error.code === "usage") return send(c, <InvalidAddress />, 400);
    if (isUnavailable(error)) return send(c, <Unavailable />, 503, retryAfter);
    return errorResponse(error, options.reportProblem);
  });
  return app;
}

/** The owner sees the callbacks, batches and credits of all accounts. */
const allKinds: Kinds = { batches: true, callbacks: true, credits: true };

function createSend(findPaths: () => Promise<AssetPaths>, options: PageOptions): Send {
  return async (c, page, status, added = {}) => {
    for (const [name, value] of Object.entries({ ...headers, [pageHeader]: "1", ...added })) c.header(name, value);
    const paths = await findPaths();
    const { account, version } = c.var;
    const isOwner = account === localAccount;
    const terminal = account === undefined ? undefined : terminalOf(c, options);
    // 503 is the page that says that the database cannot be reached.
    const hasOwnKinds = account !== undefined && !isOwner && status !== 503;
    const ownKinds = hasOwnKinds ? await options.store.kindsOf(account) : undefined;
    const kinds = isOwner ? allKinds : ownKinds;
    const visitor = { isOwner, account, kinds, terminal, version, theme: getCookie(c, "vidgen_theme") };
    const document = (
      <AssetPathsContext.Provider value={paths}>
        <VisitorContext.Provider value={visitor}>{page}</VisitorContext.Provider>
      </AssetPathsContext.Provider>
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
    const linkAccount = typeof link === "object" ? await accountOfToken(link, options.store) : undefined;
    // Opening a link does not use it up, because mail and chat programs prefetch links: only the POST of this page does.
    if (token !== undefined && linkAccount !== undefined)
      return send(c, <LinkPage token={token} account={linkAccount} />);
    const account = await readSession(c, options);
    if (account === undefined) {
      const refused = link ?? sessions.read(c.req.header("Cookie"), requestUrl(c, options), now) ?? "unknown";
      const invalidLink = link === undefined || link === "unknown" ? undefined : "link";
      const invalid = (await isDisabled(refused, options.store)) ? "account" : invalidLink;
      return send(c, <SignInPage invalid={invalid} to={withoutToken(c)} />, 401);
    }
    // A used link leaves the address bar.
    if (token !== undefined) return c.redirect(withoutToken(c), 303);
    c.set("account", account);
    return next();
  };
}

/** Returns the account of the request's session, and records the use of its key; `undefined` without a session. */
async function readSession(c: PageContext, options: PageOptions): Promise<string | undefined> {
  const sessions = await options.sessions();
  const session = sessions.read(c.req.header("Cookie"), requestUrl(c, options), options.clock.date());
  if (!session) return undefined;
  const account = await accountOfToken(session, options.store);
  if (account === undefined || (await options.store.hasTokenEnded(session, account))) return undefined;
  if (session.keyHash !== undefined) options.store.recordKeyUse(session.keyHash, options.clock.date());
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

/** The full URL of an address on this site; "/" for an address on another site, such as "//example.com". */
function sameSiteUrl(text: string | null, { origin }: URL): string {
  const url = URL.canParse(text ?? "", origin) ? new URL(text ?? "", origin) : undefined;
  return url?.origin === origin ? url.href : "/";
}

/** Returns the account of a link or a session; `undefined` if the link was used, the session was signed out, or the key was revoked. */
async function accountOfToken(
  token: SignedToken,
  store: Pick<Store, "account" | "hasTokenEnded">,
): Promise<string | undefined> {
  if (await store.hasTokenEnded(token)) return undefined;
  return token.keyHash === undefined ? localAccount : store.account(token.keyHash);
}

/** Whether a link or a session is refused because its account is disabled. */
async function isDisabled(token: SignedToken | string, store: Pick<Store, "hasTokenEnded" | "keyOwner">) {
  if (typeof token === "string" || token.keyHash === undefined || (await store.hasTokenEnded(token))) return false;
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

/** Whether this visitor may see a generation. The owner may see all. */
async function maySeeGeneration(c: PageContext, store: Pick<Store, "generation">, id: string): Promise<boolean> {
  if (accountOf(c) === undefined) return true;
  const generation = await store.generation(id);
  return generation !== undefined && maySee(c, generation.account);
}
