import { HTTPException } from "hono/http-exception";
import { localAccount } from "../announcement.ts";
import { cancelGeneration, findCancelFault, findLost } from "../api/cancel.ts";
import { findRemovalFault, removeGeneration } from "../api/remove.ts";
import type { StoredGeneration } from "../store/generations.ts";
import { countText, shortText } from "./formatting.ts";
import { maxChanged } from "./gallery.tsx";
import { shortcutAttributes } from "./keys.ts";
import { Layout } from "./layout.tsx";
import { HomeLink, NoGeneration } from "./messages.tsx";
import type { PageOptions, PageParts } from "./parts.ts";
import { readForm } from "./query.ts";
import { findVisible, type PageContext } from "./visitor.ts";

type Action = "cancel" | "delete";

/** The maximum size of the form with the ids, in bytes. */
const maxBytes = 50_000;

/** Adds Cancel and Delete. Both ask for a confirmation first: see `browser/confirm.ts`. */
export function addCancelAndDelete({ app, options, send, fromPage }: PageParts): void {
  for (const action of ["cancel", "delete"] as const) {
    app.post(`/${action}/confirm`, ...fromPage, async (c) => {
      const { requested, isAcknowledged } = await readRequested(c, options);
      if (requested.length === 0) return send(c, <NoGeneration />, 404);
      const { allowed, faults } = separateFaults(action, requested, { ...options, isAcknowledged });
      const lost = action === "delete" ? [] : allowed.filter((each) => findLost(each, options) !== undefined);
      const shown = { action, allowed, faults, isAcknowledged, isRefunded: options.hasRefunds, lost: lost.length };
      return send(c, <Question {...shown} visitor={c.var.account} />);
    });

    app.post(`/${action}`, ...fromPage, async (c) => {
      c.set("isRoutine", false);
      const { requested, isAcknowledged } = await readRequested(c, options);
      const acting = { ...options, isAcknowledged };
      const { allowed, faults } = separateFaults(action, requested, acting);
      const failed = await Promise.all(allowed.map((generation) => perform(action, generation, acting)));
      const done = allowed.filter((_, index) => failed[index] === undefined);
      const all = [...faults, ...failed.filter((fault) => fault !== undefined)];
      return send(c, <ActionResult action={action} done={done} faults={all} />);
    });
  }
}

/** The generations that the form names and that this visitor may see. An unclear one is deleted only by a form of its own. */
async function readRequested(c: PageContext, { store }: Pick<PageOptions, "store">) {
  const form = await readForm(c, maxBytes);
  const ids = new Set(form.getAll("id"));
  const found = await Promise.all([...ids].slice(0, maxChanged).map((id) => findVisible(c, store, id)));
  return {
    requested: found.filter((generation) => generation !== undefined),
    isAcknowledged: ids.size === 1 && form.get("acknowledged") === "unclear",
  };
}

type ActionOptions = PageOptions & { isAcknowledged: boolean };

/** Returns the generations that can be cancelled or deleted, and for each of the others the reason why not. */
function separateFaults(action: Action, requested: readonly StoredGeneration[], options: ActionOptions) {
  const faults = requested.map((generation) => findFault(action, generation, options));
  return {
    allowed: requested.filter((_, index) => faults[index] === undefined),
    faults: faults.filter((fault) => fault !== undefined),
  };
}

function findFault(action: Action, generation: StoredGeneration, options: ActionOptions): string | undefined {
  if (action === "delete") return findRemovalFault(generation, options);
  const { status, removed_at } = generation;
  if (removed_at !== undefined) return "already deleted";
  return status === "processing" ? findCancelFault(generation, options) : `already ${status}`;
}

/** Cancels or deletes a generation. Resolves with the reason if it could not. */
async function perform(
  action: Action,
  generation: StoredGeneration,
  options: ActionOptions,
): Promise<string | undefined> {
  const { store, reportProblem } = options;
  const { id } = generation;
  try {
    if (action === "cancel") await cancelGeneration(async () => (await store.generation(id)) ?? generation, options);
    else await removeGeneration(generation, options);
    return undefined;
  } catch (error) {
    if (error instanceof HTTPException) return error.message;
    reportProblem(`The page could not ${action} the generation ${id}`, error);
    return "the service could not do it; try again";
  }
}

const actionWords: Record<Action, { verb: string; past: string; keep: string }> = {
  cancel: { verb: "Cancel", past: "Cancelled", keep: "Keep running" },
  delete: { verb: "Delete", past: "Deleted", keep: "Keep" },
};

export type CancelOrDeleteProps = {
  generation: StoredGeneration;
  /** Why an unfinished generation cannot be cancelled; `undefined` if it can be. */
  cancelFault?: string | undefined;
};

/** The button that cancels an unfinished generation or deletes another one, or why it cannot be cancelled. */
export function CancelOrDelete({ generation, cancelFault }: CancelOrDeleteProps) {
  const { id, status, error_code, removed_at } = generation;
  if (removed_at !== undefined) return null;
  if (cancelFault !== undefined) return <span class="hint">It cannot be cancelled: {cancelFault}.</span>;
  const action = status === "processing" ? "cancel" : "delete";
  const isUnclear = error_code === "unclear";
  return (
    <form method="post">
      <input type="hidden" name="id" value={id} />
      {isUnclear ? <Acknowledgement /> : null}
      <button type="submit" formaction={`/${action}/confirm`} data-ask {...shortcutAttributes("end")}>
        {isUnclear ? "I have checked the charge: delete" : actionWords[action].verb}…
      </button>
    </form>
  );
}

function Acknowledgement() {
  return <input type="hidden" name="acknowledged" value="unclear" />;
}

type QuestionProps = {
  action: Action;
  allowed: readonly StoredGeneration[];
  faults: readonly string[];
  /** Whether the visitor knows that the generation may have been charged. */
  isAcknowledged: boolean;
  /** Whether the service returns the credits of cancelled generations. */
  isRefunded: boolean;
  /** The number of generations whose credits it does not return, because their engine is gone and may have generated a video. */
  lost: number;
  visitor: string;
};

/** Asks for a confirmation, with the number of generations and their owners. */
function Question({ action, allowed, faults, isAcknowledged, isRefunded, lost, visitor }: QuestionProps) {
  const { verb, keep } = actionWords[action];
  const [first] = allowed;
  if (first === undefined) return <Result title={`Nothing to ${action}`} done={[]} faults={faults} />;
  const isOne = allowed.length === 1;
  const noun = first.media ? "video" : "generation";
  const title = `${verb} ${isOne && first.account === visitor ? `this ${noun}` : ownersText(allowed, visitor)}?`;
  return (
    <Layout title={title} current="/">
      <section class="message">
        <h1 id="question">{title}</h1>
        {isOne ? (
          <p class="hint" dir="auto">
            {shortText(first.request.prompt, 160)}
          </p>
        ) : null}
        <p>{action === "cancel" ? cancelText({ isRefunded, lost }) : deleteText}</p>
        {isAcknowledged ? <p>{unclearText}</p> : null}
        <Faults faults={faults} />
        <form action={`/${action}`} method="post" data-ask>
          {allowed.map(({ id }) => (
            <input type="hidden" name="id" value={id} />
          ))}
          {isAcknowledged ? <Acknowledgement /> : null}
          <button type="submit" formmethod="dialog" class="with-script" autofocus>
            {keep}
          </button>{" "}
          <button type="submit" class="bad">
            {verb} {isOne ? noun : generationsText(allowed.length)}
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
  "The video and its thumbnail are deleted permanently. The record of what was paid is kept, and so are files that were saved elsewhere.";

const unclearText =
  "Its engine's provider may have charged for it. Once it is deleted, nobody can read that here, and the same command starts a new generation, which is paid.";

function cancelText({ isRefunded, lost }: Pick<QuestionProps, "isRefunded" | "lost">): string {
  const refund = isRefunded ? "Credits are returned." : "Credits are not returned.";
  const exception =
    lost === 0
      ? ""
      : ` Except for ${countText(lost)} of them: an engine that is no longer used may have generated the video.`;
  return `A cancelled generation ends as failed. ${refund}${isRefunded ? exception : ""}`;
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

/** How many generations were cancelled or deleted, and why the others were not. */
function ActionResult({
  action,
  done,
  faults,
}: Pick<QuestionProps, "action" | "faults"> & { done: readonly StoredGeneration[] }) {
  const { past } = actionWords[action];
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
        <HomeLink />
      </section>
    </Layout>
  );
}

/** The number of unchanged generations for each reason. */
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
