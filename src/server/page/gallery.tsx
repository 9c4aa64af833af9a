import type { GenerationSummary, GenerationTotals } from "../store/store.ts";
import { type Status, statusWords } from "./formatting.ts";
import { Layout, Time } from "./layout.tsx";

export type Filter = { status?: string | undefined; model?: string | undefined; text?: string | undefined };

export type GalleryProps = {
  filter: Filter;
  cards: readonly CardProps[];
  totals: GenerationTotals;
  /** The address of the next page; `undefined` when this is the last one. */
  older: string | undefined;
};

/** Every generation as a card, newest first. */
export function Gallery({ filter, cards, totals, older }: GalleryProps) {
  return (
    <Layout title="Generations" current="/">
      <h1 class="hidden">Generations</h1>
      <search>
        <FilterForm filter={filter} totals={totals} />
      </search>
      <ol class="cards" id="list" data-list="generation" aria-label="Generations, newest first">
        {cards.map((card) => (
          <Card {...card} />
        ))}
      </ol>
      <Empty filter={filter} />
      <Older address={older} />
    </Layout>
  );
}

function FilterForm({ filter, totals }: Pick<GalleryProps, "filter" | "totals">) {
  const { counts, models } = totals;
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const statuses = Object.entries(statusWords) as [Status, string][];
  return (
    <form id="filter" class="filter" aria-label="Filter" action="/" method="get">
      <fieldset class="tabs">
        <legend class="hidden">State</legend>
        <Tab value="" name="All" count={all} chosen={filter.status} />
        {statuses.map(([status, name]) => (
          <Tab value={status} name={name} count={counts[status] ?? 0} chosen={filter.status} />
        ))}
      </fieldset>
      <select name="model" aria-label="Model" data-part="models">
        <option value="">All models</option>
        {models.map((model) => (
          <option value={model} selected={model === filter.model}>
            {model}
          </option>
        ))}
      </select>
      <input
        type="search"
        name="text"
        value={filter.text ?? ""}
        placeholder="Search prompts and ids"
        aria-label="Search prompts and ids"
        aria-keyshortcuts="/"
        autocomplete="off"
      />
      <button type="submit" class="without-script">
        Filter
      </button>
    </form>
  );
}

type TabProps = { value: string; name: string; count: number; chosen: string | undefined };

function Tab({ value, name, count, chosen = "" }: TabProps) {
  return (
    <label>
      <input type="radio" name="status" value={value} checked={value === chosen} />
      {name}
      <span class="count" data-part={`count-${value}`}>
        {count.toLocaleString("en")}
      </span>
    </label>
  );
}

/** Shown while the list before it is empty. */
function Empty({ filter }: Pick<GalleryProps, "filter">) {
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  return (
    <section class="empty" data-part="empty">
      <h2>{isFiltered ? "No generation matches" : "No generations yet"}</h2>
      {isFiltered ? (
        <p>
          <a href="/">Show all</a>
        </p>
      ) : (
        <p>
          Start one: <code>npx vidgen generate "a red fox runs through snow" --local</code>
        </p>
      )}
    </section>
  );
}

/** The link to the next page of a list. */
export function Older({ address }: { address: string | undefined }) {
  if (address === undefined) return null;
  return (
    <a id="older" class="button older" rel="next" href={address}>
      Show older
    </a>
  );
}

export type CardProps = { generation: GenerationSummary; percent: number | undefined; now: Date };

function Card({ generation, percent, now }: CardProps) {
  const { id, status, model, prompt, created_at } = generation;
  return (
    <li class="card" data-key={id} data-order={created_at} data-status={status}>
      <a href={`/generations/${id}`}>
        <Stage generation={generation} percent={percent} />
        <span class="prompt" dir="auto">
          {prompt}
        </span>
        <span class="facts">
          <State status={status} />
          <span class="model">{model}</span>
          <Time at={created_at} now={now} />
        </span>
      </a>
    </li>
  );
}

/** The thumbnail. The preview makes one; for other engines' videos the browser shows the first frame. */
function Stage({ generation, percent }: Omit<CardProps, "now">) {
  const { id, status, media, error } = generation;
  if (status === "processing")
    return (
      <span class="stage running">
        <Progress id={id} percent={percent} />
      </span>
    );
  if (!media)
    return (
      <span class="stage failed" dir="auto">
        {error}
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

/** Without a percentage the bar only shows that something happens. */
export function Progress({ id, percent }: { id: string; percent: number | undefined }) {
  return <progress max={100} value={percent} data-progress={id} aria-label="Progress"></progress>;
}

export function State({ status }: { status: Status }) {
  return <span class={`state ${status}`}>{statusWords[status]}</span>;
}
