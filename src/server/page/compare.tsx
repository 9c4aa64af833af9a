import { refuse, streamResponse } from "../http/message.ts";
import { sumPayments } from "../store/accounts.ts";
import { listImages } from "../store/generations.ts";
import type { Store } from "../store/store.ts";
import { GenerationControls } from "./controls.tsx";
import { TableHead } from "./elements.tsx";
import { durationText, priceText, shortText, usdText } from "./formatting.ts";
import { maxCompared, maxZipped, minCompared } from "./gallery.tsx";
import { shortcutAttributes } from "./keys.ts";
import { Layout, Message } from "./layout.tsx";
import { HomeLink, NothingHere } from "./messages.tsx";
import type { PageParts } from "./parts.ts";
import { readForm } from "./query.ts";
import { accountOf, findVisible, type PageContext } from "./visitor.ts";
import { type GenerationWithVideo, zipOf } from "./zip.ts";

/** The maximum size of the form with the ids, in bytes. 500 ids have 20 kB, which is too long for a URL. */
const maxZipBytes = 50_000;
/** The maximum number of generations, newest first, that are compared with a prompt to find more takes of it. */
const maxSearched = 200;

/** Adds the routes that compare, star and download several videos. */
export function addComparison({ app, options, send, signedIn, fromPage }: PageParts): void {
  const { store, videos } = options;

  app.get("/compare", signedIn, async (c) => {
    const of = c.req.query("of");
    const ids = of === undefined ? (c.req.queries("id") ?? []) : await findSimilar(c, store, of);
    const isTooMany = new Set(ids).size > maxCompared;
    const generations = isTooMany ? [] : await findWithVideo(c, store, ids);
    if (generations.length < minCompared) return send(c, <WrongVideoCount isTooMany={isTooMany} />, 400);
    const credits = await Promise.all(generations.map(({ id }) => readCredits(store, id)));
    const compared = generations.map((generation, index) => ({ generation, credits: credits[index] ?? 0 }));
    return send(c, <ComparePage compared={compared} />);
  });

  for (const method of ["PUT", "DELETE"] as const)
    app.on(method, "/generations/:id/star", ...fromPage, async (c) => {
      const generation = await findVisible(c, store, c.req.param("id"));
      if (!generation) throw refuse(404, "not_found", "there is no such generation");
      await store.star(generation.id, method === "PUT");
      return c.body(null, 204);
    });

  app.post("/zip", ...fromPage, async (c) => {
    const ids = (await readForm(c, maxZipBytes)).getAll("id");
    const generations = await findWithVideo(c, store, ids.slice(0, maxZipped));
    if (generations.length === 0) return send(c, <NothingHere title="None of these has a video" />, 404);
    const zip = zipOf(generations, videos);
    const headers = {
      "Content-Type": "application/zip",
      "Content-Length": String(zip.size),
      "Content-Disposition": 'attachment; filename="vidgen.zip"',
      "Cache-Control": "no-store",
      "X-Content-Type-Options": "nosniff",
    };
    return streamResponse(zip.body, { status: 200, headers }, c.env.outgoing);
  });
}

/** The generations among these ids that have a video and that this visitor may see, without duplicates. */
async function findWithVideo(c: PageContext, store: Pick<Store, "generation">, ids: readonly string[]) {
  const finished: GenerationWithVideo[] = [];
  for (const id of new Set(ids)) {
    const generation = await findVisible(c, store, id);
    if (generation?.media && !generation.removed_at) finished.push(generation as GenerationWithVideo);
  }
  return finished;
}

/** The ids of a generation and of the newest completed ones with the same prompt. */
async function findSimilar(c: PageContext, store: Store, id: string): Promise<string[]> {
  const generation = await findVisible(c, store, id);
  if (!generation) return [];
  const { prompt } = generation.request;
  const found = await store.list({ text: prompt, state: "completed", account: accountOf(c), limit: maxSearched });
  const others = found.filter((each) => each.id !== id && !each.removed_at && prompt.startsWith(each.prompt));
  const same: string[] = [];
  for (const other of others) {
    if (same.length === maxCompared - 1) break;
    // The list contains only the beginning of each prompt.
    if ((await store.generation(other.id))?.request.prompt === prompt) same.push(other.id);
  }
  return [id, ...same];
}

/** The credits that a generation cost, without those that were returned. */
async function readCredits(store: Pick<Store, "ledger">, id: string): Promise<number> {
  const { paid, returned } = sumPayments(await store.ledger({ generation: id, limit: 2 }));
  return paid - returned;
}

type Compared = { generation: GenerationWithVideo; credits: number };

/** Videos side by side, played by one set of controls: see `browser/compare.ts`. */
function ComparePage({ compared }: { compared: readonly Compared[] }) {
  const prompts = new Set(compared.map(({ generation }) => generation.request.prompt));
  const [prompt = ""] = prompts;
  return (
    <Layout title={`Compare ${compared.length}`} current="/">
      <h1 dir="auto">{prompts.size === 1 ? prompt : `Compare ${compared.length} videos`}</h1>
      <div class="playback with-script" data-own>
        <button type="button" id="play" {...shortcutAttributes("play")}>
          Play
        </button>
        <button type="button" data-frames="-1" aria-label="One frame back" {...shortcutAttributes("back")}>
          ‹
        </button>
        <button type="button" data-frames="1" aria-label="One frame forward" {...shortcutAttributes("forward")}>
          ›
        </button>
        <input type="range" id="position" min="0" max="0" step="any" value="0" aria-label="Position in all videos" />
        <output id="time"></output>
      </div>
      <ol class={`compared ${shapeOf(compared)}`} data-list="generation" aria-label="Compared videos">
        {compared.map(({ generation }, index) => (
          <CompareItem generation={generation} number={index + 1} hasPrompt={prompts.size > 1} />
        ))}
      </ol>
      <ComparisonTable compared={compared} />
      <form action="/zip" method="post">
        {compared.map(({ generation }) => (
          <input type="hidden" name="id" value={generation.id} />
        ))}
        <button type="submit">Download all as .zip</button>
      </form>
    </Layout>
  );
}

/** The shape of all frames: a square if wide and tall videos are compared, so that neither is larger. */
function shapeOf(compared: readonly Compared[]): "wide" | "tall" | "square" {
  const shapes = new Set(compared.map(({ generation }) => isPortrait(generation.request.aspectRatio)));
  if (shapes.size > 1) return "square";
  return shapes.has(true) ? "tall" : "wide";
}

function isPortrait(aspectRatio: string): boolean {
  const [width = 1, height = 1] = aspectRatio.split(":").map(Number);
  return width < height;
}

type CompareItemProps = { generation: GenerationWithVideo; number: number; hasPrompt: boolean };

function CompareItem({ generation, number, hasPrompt }: CompareItemProps) {
  const { id, request, isStarred } = generation;
  const { prompt, model } = request;
  return (
    <li id={`compared-${id}`}>
      <video src={`/videos/${id}.mp4`} preload="auto" muted playsinline aria-label={prompt}></video>
      <p class="which">
        <span class="state">{number}</span>
        <a href={`/generations/${id}`} dir="auto">
          {hasPrompt ? shortText(prompt, 120) : model}
        </a>
        <GenerationControls {...{ id, prompt, model, isStarred }} hasVideo isSelectable={false} />
      </p>
    </li>
  );
}

/** A table with a column for each video. Rows in which the videos differ are marked. */
function ComparisonTable({ compared }: { compared: readonly Compared[] }) {
  const facts = compared.map(factsOf);
  const names = [...new Set(facts.flatMap((each) => Object.keys(each)))];
  const differs = (name: string) => new Set(facts.map((each) => each[name])).size > 1;
  return (
    <section class="scrolls-sideways" tabindex={0} aria-label="Facts">
      <table class="ledger differences">
        <TableHead columns={["Fact", ...facts.map((_, index) => `Video ${index + 1}`)]} />
        <tbody>
          {names.map((name) => (
            <tr class={differs(name) ? "differs" : undefined}>
              <th scope="row">
                {name}
                {differs(name) ? <span class="hidden"> (differs)</span> : null}
              </th>
              {facts.map((each) => (
                <td dir="auto">{each[name] ?? "not set"}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** The values of a video in the comparison, by their labels. */
function factsOf({ generation, credits }: Compared): Record<string, string> {
  const { request, checkpoint, created_at, completed_at, cost } = generation;
  const { model, aspectRatio, duration, resolution, extras } = request;
  const images = listImages(request);
  const renderedMs = Date.parse(completed_at ?? created_at) - Date.parse(checkpoint?.at ?? created_at);
  const others = Object.entries(extras).map(([name, value]) => [
    name,
    typeof value === "string" ? value : JSON.stringify(value),
  ]);
  return {
    Model: model,
    Video: `${aspectRatio}, ${duration} s, ${resolution}`,
    ...(images.length > 0 && { Images: String(images.length) }),
    ...Object.fromEntries(others),
    "Rendered in": durationText(Math.max(0, renderedMs)),
    Cost: [priceText(credits), cost === null ? undefined : usdText(cost)].filter(Boolean).join(", ") || "nothing",
  };
}

function WrongVideoCount({ isTooMany }: { isTooMany: boolean }) {
  return (
    <Message title={isTooMany ? `Compare at most ${maxCompared} videos` : "Fewer than two videos to compare"}>
      <p>
        Select {minCompared} to {maxCompared} completed videos in the list, then press "Compare".
      </p>
      <HomeLink />
    </Message>
  );
}
