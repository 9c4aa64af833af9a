import { HTTPException } from "hono/http-exception";
import { localAccount } from "../announcement.ts";
import { cancelGeneration, findCancelFault, findLost } from "../api/cancel.ts";
import { removeGeneration } from "../api/videos.ts";
import { readBody } from "../http/message.ts";
import type { StoredGeneration } from "../store/generations.ts";
import { countText, shortText } from "./formatting.ts";
import { maxChanged } from "./gallery.tsx";
import { keyed } from "./keys.ts";
import { Layout } from "./layout.tsx";
import { Missing, WayOut } from "./messages.tsx";
import type { PageOptions, PageParts } from "./parts.ts";
import { findShown, type PageContext } from "./visitor.ts";

type Act = "cancel" | "delete";

/** The ids come as a form, as for a .zip. */
const maxBytes = 50_000;

/** Adds Cancel and Delete. Both ask first: see `browser/confirm.ts`. */
export function addConfirmed({ app, options, send, fromPage }: PageParts): void {
  for (const act of ["cancel", "delete"] as const) {
    app.post(`/${act}/confirm`, ...fromPage, async (c) => {
      const requested = await readRequested(c, options);
      if (requested.length === 0) return send(c, <Missing />, 404);
      const { able, faults } = separate(act, requested, options);
      const lost = act === "delete" ? [] : able.filter((each) => findLost(each, options) !== undefined);
      const shown = { act, able, faults, isRefunded: options.hasRefunds, lost: lost.length };
      return send(c, <Question {...shown} visitor={c.var.account} />);
    });

    app.post(`/${act}`, ...fromPage, async (c) => {
      c.set("isRoutine", false);
      const requested = await readRequested(c, options);
      const { able, faults } = separate(act, requested, options);
      const failed = await Promise.all(able.map((generation) => change(act, generation, options)));
      const done = able.filter((_, index) => failed[index] === undefined);
      const all = [...faults, ...failed.filter((fault) => fault !== undefined)];
      return send(c, <ActResult act={act} done={done} faults={all} />);
    });
  }
}

/** The generations that the form names and this visitor may see. */
async function readRequested(c: PageContext, { store }: Pick<PageOptions, "store">): Promise<StoredGeneration[]> {
  const body = await readBody(c, { maxBytes, types: ["application/x-www-form-urlencoded"] });
  const ids = new Set(new URLSearchParams(Buffer.from(body).toString()).getAll("id"));
  const found = await Promise.all([...ids].slice(0, maxChanged).map((id) => findShown(c, store, id)));
  return found.filter((generation) => generation !== undefined);
}

/** Separates what can be cancelled or deleted from why the rest cannot. */
function separate(act: Act, requested: readonly StoredGeneration[], options: PageOptions) {
  const faults = requested.map((generation) => findFault(act, generation, options));
  return {
    able: requested.filter((_, index) => faults[index] === undefined),
    faults: faults.filter((fault) => fault !== undefined),
  };
}

function findFault(act: Act, generation: StoredGeneration, options: PageOptions): string | undefined {
  const { status, error_code, removed_at } = generation;
  if (removed_at !== undefined) return "deleted before";
  const isRunning = status === "processing";
  if (act === "cancel") return isRunning ? findCancelFault(generation, options) : `already ${status}`;
  if (isRunning) return "not ended yet; cancel it first";
  return error_code === "unclear" ? "it is unclear whether it was charged, so it stays on record" : undefined;
}

/** Cancels or deletes a generation. Resolves with the reason if it is left as it was. */
async function change(act: Act, generation: StoredGeneration, options: PageOptions): Promise<string | undefined> {
  const { store, reportProblem } = options;
  const { id } = generation;
  try {
    if (act === "cancel") await cancelGeneration(async () => (await store.generation(id)) ?? generation, options);
    else await removeGeneration(generation, options);
    return undefined;
  } catch (error) {
    if (error instanceof HTTPException) return error.message;
    reportProblem(`The page could not ${act} the generation ${id}`, error);
    return "the service could not do it; try again";
  }
}

const words: Record<Act, { verb: string; past: string; keep: string }> = {
  cancel: { verb: "Cancel", past: "Cancelled", keep: "Keep running" },
  delete: { verb: "Delete", past: "Deleted", keep: "Keep" },
};

type CancelOrDeleteProps = {
  generation: StoredGeneration;
  /** Why it cannot be cancelled, if it has not ended and cannot be. */
  cancelFault: string | undefined;
};

/** The button that cancels or deletes a generation, or why it cannot be cancelled. */
export function CancelOrDelete({ generation, cancelFault }: CancelOrDeleteProps) {
  const { id, status, error_code, removed_at } = generation;
  if (removed_at !== undefined || error_code === "unclear") return null;
  if (cancelFault !== undefined) return <span class="hint">It cannot be cancelled: {cancelFault}.</span>;
  const act = status === "processing" ? "cancel" : "delete";
  return (
    <form method="post">
      <input type="hidden" name="id" value={id} />
      <button type="submit" formaction={`/${act}/confirm`} data-ask {...keyed("end")}>
        {words[act].verb}…
      </button>
    </form>
  );
}

type QuestionProps = {
  act: Act;
  able: readonly StoredGeneration[];
  faults: readonly string[];
  /** Whether cancelled generations get their credits back, and how many of them do not. */
  isRefunded: boolean;
  lost: number;
  visitor: string;
};

/** Names how many generations are meant, and whose. */
function Question({ act, able, faults, isRefunded, lost, visitor }: QuestionProps) {
  const { verb, keep } = words[act];
  const [first] = able;
  if (first === undefined) return <Result title={`Nothing to ${act}`} done={[]} faults={faults} />;
  const title = `${verb} ${ownersText(able, visitor)}?`;
  return (
    <Layout title={title} current="/">
      <section class="message">
        <h1 id="question">{title}</h1>
        {able.length > 1 ? null : (
          <p class="hint" dir="auto">
            {shortText(first.request.prompt, 160)}
          </p>
        )}
        <p>{act === "cancel" ? cancelText({ isRefunded, lost }) : deleteText}</p>
        <Faults faults={faults} />
        <form action={`/${act}`} method="post" data-ask>
          {able.map(({ id }) => (
            <input type="hidden" name="id" value={id} />
          ))}
          <button type="submit" formmethod="dialog" class="with-script" autofocus>
            {keep}
          </button>{" "}
          <button type="submit" class="bad">
            {verb} {generationsText(able.length)}
          </button>
        </form>
        <p class="without-script">
          <a href="/">{keep}</a>
        </p>
      </section>
    </Layout>
  );
}

const deleteText =
  "The video and its thumbnail are deleted for good. The record stays, with what was paid, and so do files that were saved elsewhere.";

function cancelText({ isRefunded, lost }: Pick<QuestionProps, "isRefunded" | "lost">): string {
  const refund = isRefunded ? "Credits are returned." : "Credits are not returned.";
  const exception =
    lost === 0
      ? ""
      : ` Not for ${countText(lost)} of them: an engine that is no longer used may have generated the video.`;
  return `What is cancelled ends as failed. ${refund}${isRefunded ? exception : ""}`;
}

/** Such as "2 generations of yours and 1 of the account guest". */
function ownersText(generations: readonly StoredGeneration[], visitor: string): string {
  const counts = [...countEach(generations.map(({ account }) => account))];
  const parts = counts.map(([account, count], index) => {
    const number = index === 0 ? generationsText(count) : countText(count);
    return `${number} of ${accountText(account, visitor)}`;
  });
  return new Intl.ListFormat("en").format(parts);
}

function generationsText(count: number): string {
  return count === 1 ? "1 generation" : `${countText(count)} generations`;
}

function countEach(values: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

function accountText(account: string, visitor: string): string {
  if (account === visitor) return "yours";
  return account === localAccount ? "the owner" : `the account ${account}`;
}

/** The generations that were changed, and those that were not, with the reasons. */
function ActResult({
  act,
  done,
  faults,
}: Pick<QuestionProps, "act" | "faults"> & { done: readonly StoredGeneration[] }) {
  const { past } = words[act];
  const title = done.length === 0 ? `Nothing was ${past.toLowerCase()}` : `${past} ${generationsText(done.length)}`;
  return <Result title={title} done={done} faults={faults} />;
}

type ResultProps = { title: string; done: readonly StoredGeneration[]; faults: readonly string[] };

function Result({ title, done, faults }: ResultProps) {
  return (
    <Layout title={title} current="/">
      <section class="message" data-done={done.map(({ id }) => id).join(" ")} data-faults={faults.length || undefined}>
        <h1 id="question">{title}</h1>
        <Faults faults={faults} />
        <form method="dialog" class="with-script">
          <button type="submit" autofocus>
            Close
          </button>
        </form>
        <WayOut />
      </section>
    </Layout>
  );
}

/** How many generations are not changed, for each reason. */
function Faults({ faults }: Pick<QuestionProps, "faults">) {
  if (faults.length === 0) return null;
  return (
    <div>
      <p>Not changed:</p>
      <ul>
        {[...countEach(faults)].map(([reason, count]) => (
          <li dir="auto">
            {countText(count)}: {reason}
          </li>
        ))}
      </ul>
    </div>
  );
}
