import { randomUUID } from "node:crypto";
import { streamSSE } from "hono/streaming";
import type { Clock } from "../../io.ts";
import { type ApiContext, refuse, retryAfter } from "../http/message.ts";
import type { Change } from "../store/change.ts";

export type Changes = {
  publish(change: Change): void;
  /** Names what was published until now, except progress. No other process has the same names. */
  version(): string;
  /** Streams the changes from now on as server-sent events, until the client disconnects. Throws a refusal if there are too many streams. */
  stream(c: ApiContext, options: StreamOptions): Response;
  /** Ends all streams. */
  close(): void;
};

export type StreamOptions = {
  /** The account that the stream counts for. */
  account: string;
  /** A version of this or another process: the stream begins with "missed" if it is not the current one. */
  since?: string | undefined;
  clock: Pick<Clock, "now" | "sleep">;
  /** Whether this client may see a change. */
  isShown(change: Change): boolean;
  /** Whether the client may still see changes. The stream ends when not; asked before each ping. */
  isAllowed(): Promise<boolean>;
};

/** An open stream. `unread` has only the latest change of each kind and generation, so that a slow client takes little memory. */
type Listener = { account: string; unread: Map<string, Change>; wakeUp: AbortController; isEnded: boolean };

/**
 * How often the event "ping" is sent. It detects clients that have vanished, and tells the page that the stream still works: after twice this time
 * without an event, the page polls (browser/live.ts).
 */
const pingMs = 5_000;

/** The maximum number of streams. A visible page has one, a hidden page none. */
const defaultLimits = { perAccount: 32, inAll: 1_000 };

export function createChanges(limits = defaultLimits): Changes {
  const listeners = new Set<Listener>();
  const name = randomUUID();
  let count = 0;
  let isClosed = false;
  const version = () => `${name}.${count}`;
  return {
    version,
    publish(change) {
      if (change.kind !== "progress") count++;
      const key = `${change.kind} ${"id" in change ? change.id : change.account}`;
      for (const listener of listeners) {
        listener.unread.set(key, change);
        if (change.kind === "refused" && change.account === listener.account) listener.isEnded = true;
        listener.wakeUp.abort();
      }
    },
    stream(c, { account, since, clock, isShown, isAllowed }) {
      const own = [...listeners].filter((each) => each.account === account);
      if (own.length >= limits.perAccount || listeners.size >= limits.inAll)
        throw refuse(429, "too_many_streams", "too many event streams are open; try again", retryAfter);
      c.set("isStream", true);
      c.env.leaveLimit?.();
      // Otherwise nginx buffers the events for minutes.
      c.header("X-Accel-Buffering", "no");
      return streamSSE(c, async (stream) => {
        const listener: Listener = { account, unread: new Map(), wakeUp: new AbortController(), isEnded: false };
        listeners.add(listener);
        if (since !== undefined && since !== version())
          listener.unread.set("missed", { kind: "missed", account: null });
        stream.onAbort(() => {
          listeners.delete(listener);
          listener.wakeUp.abort();
        });
        // Some proxies forward the headers only with the first byte of the body.
        await stream.write(":\n\n");
        let pingAt = clock.now() + pingMs;
        while (!stream.aborted && !isClosed && !listener.isEnded) {
          if (clock.now() >= pingAt) {
            if (!(await isAllowed())) break;
            await stream.writeSSE({ event: "ping", data: "" });
            pingAt = clock.now() + pingMs;
            continue;
          }
          const changes = [...listener.unread.values()];
          listener.unread.clear();
          listener.wakeUp = new AbortController();
          for (const change of changes) if (isShown(change)) await stream.writeSSE({ data: JSON.stringify(change) });
          if (listener.unread.size > 0 || stream.aborted || isClosed) continue;
          await clock.sleep(pingAt - clock.now(), listener.wakeUp.signal).catch(() => {});
        }
        listeners.delete(listener);
      });
    },
    close() {
      isClosed = true;
      for (const { wakeUp } of listeners) wakeUp.abort();
    },
  };
}
