import { isDeepStrictEqual } from "node:util";
import { VidgenError } from "../errors.ts";
import type { Entry } from "./journal.ts";
import type { StartRequest } from "./schema.ts";

/** An entry of the journal whose generation can be gone on with. */
export type Reusable = Entry & { id: string };

const reusableMs = 24 * 3600 * 1000;

/**
 * The generation to go on with instead of paying for the same request again: one of these entries of a service that was started in the last
 * 24 hours and did not fail; `undefined` when there is none. Throws `unknown` when the newest such attempt may have been charged, but its id never
 * came: starting another could pay twice.
 */
export function findReusable(entries: Entry[], request: StartRequest, now: Date): Reusable | undefined {
  const isSame = (entry: Entry) =>
    now.getTime() - new Date(entry.at).getTime() < reusableMs &&
    isDeepStrictEqual(entry.request, JSON.parse(JSON.stringify(request)));
  const earlier = entries.filter(isSame);
  const started = earlier.find(({ id, status }) => id !== undefined && status !== "failed");
  if (started?.id !== undefined) return { ...started, id: started.id };
  const unclear = earlier.find(({ status }) => status === "unknown" || status === "starting");
  if (!unclear) return undefined;
  const message = `The same request was sent ${unclear.at.slice(0, 16)}Z, and its id never came: it may have been charged (attempt ${unclear.attempt}).`;
  throw new VidgenError("unknown", message, {
    hint: "Nothing was sent now. Look at your account for that generation; without --reuse another is started, and paid for.",
  });
}
