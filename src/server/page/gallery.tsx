import type { Progress } from "../store/change.ts";
import type { GenerationState } from "../store/generations.ts";
import type { GenerationFilter, GenerationSummary, GenerationTotals } from "../store/reports.ts";
import { GenerationControls } from "./controls.tsx";
import { EmptyList } from "./elements.tsx";
import { createForecast } from "./forecast.ts";
import {
  countText,
  creditsText,
  durationText,
  type ExpectedEnd,
  elapsedText,
  leftText,
  progressText,
  shortText,
  stateWords,
  usdText,
} from "./formatting.ts";
import { shortcutAttributes, shortcutOf } from "./keys.ts";
import { Layout, RelativeTime } from "./layout.tsx";
import type { PageOptions, PageParts } from "./parts.ts";
import { addressBefore, olderAddress, readList, readValue, withQuery } from "./query.ts";
import { TypedLine } from "./terminal.tsx";
import { accountOf, type PageContext, uuid } from "./visitor.ts";

export const minCompared = 2;
export const maxCompared = 6;
/** The maximum number of files in a .zip. */
export const maxZipped = 500;
/** The maximum number of generations to cancel or delete at once. */
export const maxChanged = 500;

/** Adds the list of generations. */
export function addGallery({ app, options, send, signedIn }: PageParts): void {
  const { store } = options;

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
}

export function readFilter(c: PageContext): GenerationFilter {
  const state = readValue(c, "state", /^(queued|running|completed|failed)$/) as GenerationState | undefined;
  const isStarred = readValue(c, "starred", /^1$/) === "1" || undefined;
  return { state, model: readValue(c, "model"), text: readValue(c, "text"), label: readValue(c, "label"), isStarred };
}

type GalleryProps = {
  filter: GenerationFilter;
  cards: readonly CardProps[];
  totals: GenerationTotals;
  /** Whether this is the first page. It starts at the newest generation, or while the list is in use at its first entry. */
  isNewest: boolean;
  /** The address of the next page; `undefined` on the last page. */
  older: string | undefined;
  /** The address that continues a search over older generations. */
  unsearched: string | undefined;
};

/** All generations as cards, newest first. */
function Gallery({ filter, cards, totals, isNewest, older, unsearched }: GalleryProps) {
  const query = queryOf(filter);
  return (
    <Layout title="Generations" current="/">
      <h1 class="hidden">Generations</h1>
      <search>
        <FilterForm filter={filter} totals={totals} />
      </search>
      <NewerLink filter={filter} totals={totals} isNewest={isNewest} />
      <Cards
        {...{ cards, query }}
        id="list"
        name="Generations, newest first"
        first={isNewest ? cards[0]?.generation.id : undefined}
      />
      <Empty filter={filter} />
      <OlderLink address={older} />
      <SearchOlderLink address={unsearched} />
      <Selection />
    </Layout>
  );
}

type CardsProps = {
  cards: readonly CardProps[];
  /** The query of the list for links to generations, with the question mark. */
  query: string;
  id: string;
  name: string;
  /** The id of the first generation, on the first page: newer ones may appear above it. */
  first?: string | undefined;
};

/** A list of generations whose videos can be selected: see `Selection`. */
export function Cards({ cards, query, id, name, first }: CardsProps) {
  return (
    <ol class="cards" id={id} data-list="generation" data-first={first} aria-label={name}>
      {cards.map((card) => (
        <Card {...card} query={query} />
      ))}
    </ol>
  );
}

/** The actions for the selected videos; hidden while none is selected. `hasKey` if the keys for Compare and Delete press these buttons. */
export function Selection({ hasKey = true }) {
  return (
    // The selection is in the tab's storage, so the browser must not restore the checkboxes.
    <form
      id="selection"
      class="selection"
      action="/compare"
      method="get"
      aria-label="Selected videos"
      autocomplete="off"
      data-own
    >
      <output class="with-script"></output>
      <button
        type="submit"
        data-min={minCompared}
        data-max={maxCompared}
        {...(hasKey && shortcutAttributes("compare"))}
      >
        Compare
      </button>
      <button type="submit" formaction="/zip" formmethod="post" data-min={1} data-max={maxZipped}>
        Download .zip
      </button>
      <button type="submit" class="cancel" {...actionAttributes("cancel")}>
        Cancel…
      </button>
      <button type="submit" {...actionAttributes("delete")} {...(hasKey && shortcutAttributes("end"))}>
        Delete…
      </button>
      <button type="reset">Clear selection</button>
    </form>
  );
}

/** The attributes of a button that cancels or deletes the selected generations, after a confirmation. */
function actionAttributes(action: "cancel" | "delete") {
  return {
    formaction: `/${action}/confirm`,
    formmethod: "post" as const,
    "data-ask": true,
    "data-min": 1,
    "data-max": maxChanged,
  };
}

function FilterForm({ filter, totals }: Pick<GalleryProps, "filter" | "totals">) {
  const { counts, models } = totals;
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const states = Object.entries(stateWords) as [GenerationState, string][];
  return (
    <form id="filter" class="filter" aria-label="Filter" action="/" method="get">
      <fieldset class="tabs">
        <legend class="hidden">State</legend>
        <StateChoice value="" name="All" count={all} chosen={filter.state} />
        {states.map(([state, name]) => (
          <StateChoice value={state} name={name} count={counts[state] ?? 0} chosen={filter.state} />
        ))}
      </fieldset>
      <select name="model" aria-label="Model">
        <option value="">All models</option>
        {models.map((model) => (
          <option value={model} selected={model === filter.model}>
            {model}
          </option>
        ))}
      </select>
      <label class="toggle">
        <input type="checkbox" name="starred" value="1" checked={filter.isStarred} />
        <span aria-hidden="true">★</span> Starred
      </label>
      {filter.label === undefined ? null : (
        <label class="toggle">
          <input type="checkbox" name="label" value={filter.label} checked />
          {shortText(filter.label, 40)}
        </label>
      )}
      <input
        type="search"
        name="text"
        value={filter.text ?? ""}
        placeholder="Search prompts, ids, errors"
        aria-label="Search"
        aria-keyshortcuts={shortcutOf("search")}
        autocomplete="off"
      />
      <button type="submit" class="without-script">
        Filter
      </button>
    </form>
  );
}

/** The link to newer generations, which are not added while the list is in use. */
function NewerLink({ filter, totals, isNewest }: Pick<GalleryProps, "filter" | "totals" | "isNewest">) {
  const { newer } = totals;
  if (isNewest && newer === 0) return null;
  return (
    <p class="newer" id="newer-line">
      <a id="newer" class="button" href={`/${queryOf(filter)}`}>
        {isNewest ? `${countText(newer)} new` : "Show the newest"}
      </a>
    </p>
  );
}

/** The filter as a query, with the question mark. */
function queryOf(filter: GenerationFilter): string {
  const { state, model, text, label, isStarred } = filter;
  return withQuery("", { state, model, text, label, starred: isStarred ? "1" : undefined });
}

type StateChoiceProps = { value: string; name: string; count: number; chosen: string | undefined };

function StateChoice({ value, name, count, chosen = "" }: StateChoiceProps) {
  return (
    <label>
      <input type="radio" name="state" value={value} checked={value === chosen} />
      {name}
      <span class="count" id={`count-${value || "all"}`}>
        {countText(count)}
      </span>
    </label>
  );
}

function Empty({ filter }: Pick<GalleryProps, "filter">) {
  if (Object.values(filter).some((value) => value !== undefined))
    return <EmptyList title="No generation matches" all="/" />;
  return (
    <EmptyList title="No generations yet">
      <p>
        <a href="/new">Start one here</a>, or in a terminal.
      </p>
      <TypedLine command={'generate "a red fox runs through snow"'} />
    </EmptyList>
  );
}

/** The link to the next page of a list. */
export function OlderLink({ address }: { address: string | undefined }) {
  if (address === undefined) return null;
  return (
    <a id="older" class="button older" rel="next" href={address}>
      Show older
    </a>
  );
}

/** The link that continues a search with older generations, in place of the link to the next page. */
function SearchOlderLink({ address }: { address: string | undefined }) {
  if (address === undefined) return null;
  return (
    <p id="older" class="older">
      Older ones were not searched.{" "}
      <a class="button" rel="next" href={address}>
        Search older ones
      </a>
    </p>
  );
}

export type CardProps = {
  generation: GenerationSummary;
  progress: Progress | undefined;
  /** The expected end of a running generation (ISO 8601), if known. */
  expectedEnd: ExpectedEnd | undefined;
  now: Date;
};

/** Adds to generations what their cards show: the progress and the expected end. */
export function readCards(
  generations: readonly GenerationSummary[],
  { store, queue, clock }: Pick<PageOptions, "store" | "queue" | "clock">,
): Promise<CardProps[]> {
  const now = clock.date();
  const forecast = createForecast(store);
  return Promise.all(
    generations.map(async (generation) => ({
      generation,
      progress: queue.progressOf(generation.id),
      expectedEnd: await forecast(generation),
      now,
    })),
  );
}

/** A generation in a list. Its link contains the filter of the list, so that Previous and Next stay in that list. */
function Card({ query, ...card }: CardProps & { query: string }) {
  const { id, state, model, prompt, created_at, removed_at } = card.generation;
  return (
    <li class="card" id={`generation-${id}`} data-state={state}>
      <a href={`/generations/${id}${query}`}>
        <span class="frame">
          <Stage {...card} />
          <Details {...card} />
        </span>
        <span class="prompt" dir="auto">
          {prompt}
        </span>
        <span class="facts">
          <StateBadge state={state} />
          {state === "completed" ? <span>{model}</span> : null}
          <RelativeTime at={created_at} now={card.now} />
        </span>
      </a>
      <GenerationControls
        {...card.generation}
        hasVideo={state === "completed" && !removed_at}
        isSelectable={!removed_at}
      />
    </li>
  );
}

/** The facts that a card shows only while it has the pointer or the focus. */
function Details({ generation }: CardProps) {
  const { state, model, duration, aspectRatio, begun_at, completed_at, credits, cost } = generation;
  const renderedMs = begun_at && completed_at ? Date.parse(completed_at) - Date.parse(begun_at) : undefined;
  return (
    <span class="details">
      {state === "completed" ? null : <span>{model}</span>}
      <span>{duration} s</span>
      <span>{aspectRatio}</span>
      {credits === 0 ? null : <span>{creditsText(credits)}</span>}
      {cost === null ? null : <span>{usdText(cost)}</span>}
      {state === "completed" && renderedMs !== undefined ? (
        <span>rendered in {durationText(Math.max(0, renderedMs))}</span>
      ) : null}
    </span>
  );
}

/** The time since a start. The script keeps it up to date. */
export function Elapsed({ since, now }: { since: string; now: Date }) {
  return (
    <time class="elapsed" datetime={since} data-elapsed>
      {elapsedText(since, now)}
    </time>
  );
}

/** The time until an expected end. The script keeps it up to date. */
export function TimeLeft({ expectedEnd, now }: { expectedEnd: ExpectedEnd; now: Date }) {
  return (
    <time datetime={expectedEnd.until} data-late={expectedEnd.late}>
      {leftText(expectedEnd, now)}
    </time>
  );
}

/** The picture of a card: the thumbnail, or the state as text. Only previews have a thumbnail; of other videos, the browser shows the first frame. */
function Stage({ generation, progress, expectedEnd, now }: CardProps) {
  const { id, state, model, media, error, removed_at, ahead, begun_at } = generation;
  if (state === "queued") return <span class="stage queued">{aheadText(ahead, model)}</span>;
  if (state === "running")
    return (
      <span class="stage running">
        <span class="facts">
          {begun_at ? <Elapsed since={begun_at} now={now} /> : null}
          <span id={`percent-${id}`}>{progress === undefined ? "" : progressText(progress)}</span>
          {expectedEnd === undefined ? null : <TimeLeft expectedEnd={expectedEnd} now={now} />}
        </span>
        <ProgressBar id={id} progress={progress} />
      </span>
    );
  if (!media || removed_at)
    return (
      <span class={removed_at ? "stage removed" : "stage failed"} dir="auto">
        {removed_at ? "Deleted. The record is kept." : error}
      </span>
    );
  const video = `/videos/${id}.mp4`;
  return (
    <span class="stage" data-video={video} aria-hidden="true">
      {media.thumbnail === null ? (
        <video src={video} preload="metadata" muted playsinline></video>
      ) : (
        <img src={`/videos/${id}.png`} alt="" loading="lazy" decoding="async" />
      )}
    </span>
  );
}

/** Without a percentage, the bar is indeterminate. */
export function ProgressBar({ id, progress }: { id: string; progress: Progress | undefined }) {
  return <progress max={100} value={progress?.percent} id={`progress-${id}`} aria-label="Progress"></progress>;
}

/** A state as a badge. "Completed" is only for screen readers: the video shows it. */
export function StateBadge({ state }: { state: GenerationState }) {
  return <span class={state === "completed" ? "hidden" : `state ${state}`}>{stateWords[state]}</span>;
}

function aheadText(ahead: number, model: string): string {
  const place = ahead < 1_000 ? `Number ${countText(ahead + 1)}` : "Beyond number 1,000";
  return `${ahead === 0 ? "Next" : place} in the queue of ${model}`;
}
