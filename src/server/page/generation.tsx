import { isDataUrl } from "../../protocol/url.ts";
import { fileName } from "../../video/naming.ts";
import { findCancelFault } from "../api/cancel.ts";
import type { Signer } from "../callbacks/signature.ts";
import { adviseOn, failureTitle } from "../engines/failure-hint.ts";
import { pictureFormat, readData } from "../media/picture.ts";
import { type LedgerEntry, sumPayments } from "../store/accounts.ts";
import { beginningOf, listImages, replaceImages, type StoredGeneration, stateOf } from "../store/generations.ts";
import type { Store } from "../store/store.ts";
import { makeAgain, type Repeats } from "./again.ts";
import { batchAddress } from "./batches.tsx";
import { DeliveryPane } from "./callbacks.tsx";
import { AgainCode } from "./code.tsx";
import { CancelOrDelete, type CancelOrDeleteProps } from "./confirm.tsx";
import { SelectBox, Star, selectId } from "./controls.tsx";
import { CopyButton, Fact, Menu } from "./elements.tsx";
import { createForecast } from "./forecast.ts";
import { creditsText, type ExpectedEnd, progressText, shortText, sizeText, stateWords, usdText } from "./formatting.ts";
import { ProgressBar, readFilter, Selection, TimeLeft } from "./gallery.tsx";
import { mediaHeaders } from "./headers.ts";
import { shortcutAttributes, shortcutOf } from "./keys.ts";
import { Layout } from "./layout.tsx";
import { NoGeneration } from "./messages.tsx";
import type { PageParts } from "./parts.ts";
import { Phases } from "./phases.tsx";
import { LoginHint } from "./terminal.tsx";
import { Timeline, type TimelineProps } from "./timeline.tsx";
import { accountOf, findVisible, terminalOf } from "./visitor.ts";

/** Adds the page of a generation, and the images of its request. */
export function addGeneration({ app, options, send, signedIn }: PageParts): void {
  const { store, queue, clock, sign } = options;

  app.get("/generations/:id", signedIn, async (c) => {
    const id = c.req.param("id");
    const generation = await findVisible(c, store, id);
    if (!generation) return send(c, <NoGeneration />, 404);
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
    const expectedEnd = await forecastEnd(generation, store);
    const cancelFault = generation.status === "processing" ? findCancelFault(generation, options) : undefined;
    const shown = { generation, again, progress, expectedEnd, cancelFault, delivery, payments, ...neighbours, sign };
    return send(c, <GenerationPage {...shown} now={clock.date()} />);
  });

  app.get("/generations/:id/images/:number", signedIn, async (c) => {
    const generation = await findVisible(c, store, c.req.param("id"));
    const images = generation ? listImages(await store.images(generation.id)) : [];
    const picture = readPicture(images[Number(c.req.param("number"))]);
    if (!picture) return send(c, <NoGeneration />, 404);
    return c.body(picture.bytes, 200, { ...mediaHeaders, "Content-Type": `image/${picture.format}` });
  });
}

/** The expected end of a running generation, if known. */
function forecastEnd(generation: StoredGeneration, store: Pick<Store, "list">): Promise<ExpectedEnd | undefined> {
  const { model, duration } = generation.request;
  return createForecast(store)({
    state: stateOf(generation),
    model,
    duration,
    ...beginningOf(generation.checkpoint),
  });
}

/** Decodes a `data:` image of a request. Returns only bytes that are a picture, because a browser could run other types. */
function readPicture(source: string | undefined) {
  if (source === undefined || !isDataUrl(source)) return undefined;
  try {
    const bytes = readData(source, "the image");
    const format = pictureFormat(bytes);
    return format && { bytes, format };
  } catch {
    // An invalid `data:` URL is not a picture.
    return undefined;
  }
}

type GenerationProps = TimelineProps &
  Omit<CancelOrDeleteProps, "generation"> & {
    /** The expected end of a running generation, if known. */
    expectedEnd: ExpectedEnd | undefined;
    again: Repeats;
    /** The charges and refunds of the generation. */
    payments: readonly LedgerEntry[];
    /** The addresses of the neighbours in the list that the generation was opened from. The previous one is newer. */
    previous: string | undefined;
    next: string | undefined;
    sign: Signer;
  };

/** The length of a prompt in the title of the tab. */
const titleCharacters = 80;
/** The longest prompt that is shown in the type size of a heading. */
const headingCharacters = 160;

/** A generation: its video, its request, its timeline, and how to repeat it. */
function GenerationPage(props: GenerationProps) {
  const { generation, again, delivery, sign, now } = props;
  const { id, request } = generation;
  return (
    <Layout title={shortText(request.prompt, titleCharacters)} current="/">
      <article class="generation" data-generation={id} data-state={stateOf(generation)} aria-labelledby="heading">
        <header class="wide">
          <Heading prompt={request.prompt} />
          <Neighbours {...props} />
        </header>
        <div class="first">
          <Player {...props} />
          <Actions {...props} />
          <section>
            <h2>Make it again</h2>
            {again.hasData ? <p class="hint">The request contained an image, which is left out here.</p> : null}
            <LoginHint />
            <AgainCode again={again} />
          </section>
        </div>
        <div class="second">
          <Facts {...props} />
          <section>
            <h2>Timeline</h2>
            <Phases {...props} />
            <Timeline {...props} />
          </section>
          {delivery === undefined ? null : (
            <section>
              <h2>Callback</h2>
              <DeliveryPane delivery={delivery} sign={sign} now={now} />
            </section>
          )}
        </div>
      </article>
      <Selection hasKey={false} />
    </Layout>
  );
}

function Heading({ prompt }: { prompt: string }) {
  const isLong = prompt.length > headingCharacters;
  return (
    <div class="title">
      <section class="whole-prompt" tabindex={isLong ? 0 : undefined} aria-label={isLong ? "Prompt" : undefined}>
        <h1 id="heading" class={isLong ? "long" : undefined} dir="auto">
          {prompt}
        </h1>
      </section>
      <CopyButton from="heading" name="the prompt" />
    </div>
  );
}

function Neighbours({ previous, next }: Pick<GenerationProps, "previous" | "next">) {
  return (
    <nav class="neighbours" aria-label="Newer and older generation">
      {previous === undefined ? null : (
        <a class="button" rel="prev" href={previous} aria-keyshortcuts={shortcutOf("previous")}>
          ← Previous
        </a>
      )}
      {next === undefined ? null : (
        <a class="button" rel="next" href={next} aria-keyshortcuts={shortcutOf("next")}>
          Next →
        </a>
      )}
    </nav>
  );
}

/** The actions for the generation, the most frequent ones first. */
function Actions({ generation, cancelFault }: CancelOrDeleteProps) {
  const { id, status, media, error_code, removed_at, request, isStarred } = generation;
  const { prompt, model } = request;
  const video = media && !removed_at ? media : undefined;
  const isRunning = status === "processing";
  return (
    <div class="actions">
      {video === undefined ? null : (
        <a
          class="button"
          href={`/videos/${id}.mp4`}
          download={fileName({ id, prompt, model })}
          {...shortcutAttributes("download")}
        >
          Download, {sizeText(video.size)}
        </a>
      )}
      <a class="button" href={`/new?from=${id}`} {...shortcutAttributes("again")}>
        Another take
      </a>
      {video === undefined ? null : (
        <a class="button" href={`/new?continue=${id}`} {...shortcutAttributes("continue")}>
          Continue
        </a>
      )}
      {isRunning ? <CancelOrDelete generation={generation} cancelFault={cancelFault} /> : null}
      {isRunning || removed_at ? null : (
        <Menu id="more" name="More">
          {video === undefined ? null : (
            <>
              <a href={`/compare?of=${id}`} {...shortcutAttributes("compare")}>
                Compare takes of this prompt
              </a>
              <Star id={id} isStarred={isStarred} />
            </>
          )}
          <span class="toggle">
            <SelectBox id={id} />
            <label for={selectId(id)}>Select</label>
          </span>
          {error_code === "unclear" ? null : <CancelOrDelete generation={generation} />}
        </Menu>
      )}
    </div>
  );
}

function Player({ generation, progress, expectedEnd, payments, now }: GenerationProps) {
  const { id, status, media, error, error_code, removed_at } = generation;
  if (status === "processing")
    return (
      <div class="stage running large">
        <p>
          {stateOf(generation) === "queued" ? "In the queue" : "Generating"}{" "}
          <span id={`percent-${id}`}>{progress === undefined ? "" : progressText(progress)}</span>{" "}
          {expectedEnd === undefined ? null : <TimeLeft expectedEnd={expectedEnd} now={now} />}
        </p>
        <ProgressBar id={id} progress={progress} />
      </div>
    );
  if (removed_at)
    return (
      <div class="error">
        <h2>This generation was deleted</h2>
        <p>The video was deleted; the record of what it cost is kept.</p>
      </div>
    );
  if (!media)
    return (
      <div class="error">
        <h2>{failureTitle(generation)}</h2>
        <p id="error" dir="auto">
          {error}
        </p>
        <CopyButton from="error" name="the error" />
        <p>{refundText(payments)}</p>
        <p>{adviseOn(generation)}</p>
        {error_code === "unclear" ? <CancelOrDelete generation={generation} /> : null}
      </div>
    );
  return (
    <div class="player">
      {/* biome-ignore lint/a11y/useMediaCaption: there are no captions of a generated video. */}
      <video
        src={`/videos/${id}.mp4`}
        poster={media.thumbnail === null ? undefined : `/videos/${id}.png`}
        controls
        loop
        playsinline
        preload="metadata"
        aria-labelledby="heading"
      ></video>
    </div>
  );
}

function Facts({ generation, payments }: GenerationProps) {
  const { id, account, request } = generation;
  const { model, aspectRatio, duration, resolution } = request;
  return (
    <dl class="facts-table">
      <Fact name="State">
        <span class={`state ${stateOf(generation)}`}>{stateWords[stateOf(generation)]}</span>
      </Fact>
      <Fact name="Model">{model}</Fact>
      <Fact name="Video">{`${aspectRatio}, ${duration} s, ${resolution}`}</Fact>
      <SourceImages generation={generation} />
      {Object.entries(request.extras).map(([name, value]) => (
        <Fact name={name}>{typeof value === "string" ? value : JSON.stringify(value)}</Fact>
      ))}
      {generation.checkpoint?.drawn_seed === undefined ? null : (
        <Fact name="seed">{`${generation.checkpoint.drawn_seed}, drawn for this video`}</Fact>
      )}
      <Fact name="Cost">{costText(payments, generation.cost)}</Fact>
      {request.label === undefined ? null : (
        <Fact name="Batch">
          <a href={batchAddress(request.label.name, account)}>{request.label.name}</a>
        </Fact>
      )}
      <Fact name="Account">{account}</Fact>
      <Fact name="Id">
        <code id="generation-id">{id}</code> <CopyButton from="generation-id" name="the id" />
      </Fact>
    </dl>
  );
}

/** The images of the request, by role. */
function SourceImages({ generation: { id, request } }: Pick<GenerationProps, "generation">) {
  const shown = listImages(request).map((source, number) => <SourceImage {...{ id, source, number }} />);
  const { images, lastImage, references = [] } = replaceImages(request, shown);
  const imagesName = images.length > 1 ? "Images" : "Image";
  const roles = {
    [lastImage && images.length === 1 ? "First image" : imagesName]: images,
    "Last image": lastImage ? [lastImage] : [],
    [references.length > 1 ? "References" : "Reference"]: references,
  };
  return (
    <>
      {Object.entries(roles).map(([name, of]) =>
        of.length === 0 ? null : (
          <Fact name={name}>
            <span class="sources">{of}</span>
          </Fact>
        ),
      )}
    </>
  );
}

/** An image of the request; a link if it is on another site, from which the page loads nothing. */
function SourceImage({ id, source, number }: { id: string; source: string; number: number }) {
  if (!isDataUrl(source)) return <a href={source}>{source}</a>;
  const address = `/generations/${id}/images/${number}`;
  return (
    <a href={address}>
      <img class="thumbnail" src={address} alt={`Source ${number + 1}`} loading="lazy" />
    </a>
  );
}

function costText(payments: GenerationProps["payments"], usd: number | null): string {
  const { paid, returned } = sumPayments(payments);
  const credits = paid > 0 ? `${creditsText(paid)}${returned > 0 ? ", returned" : ""}` : undefined;
  const charged = usd === null ? undefined : `${usdText(usd)} at its provider`;
  return [credits, charged].filter((part) => part !== undefined).join("; ") || "nothing";
}

/** Whether the cost of a failed generation was returned. */
function refundText(payments: GenerationProps["payments"]): string {
  const { paid, returned } = sumPayments(payments);
  if (paid === 0) return "It cost no credits.";
  return returned > 0
    ? `The cost of ${creditsText(returned)} was returned.`
    : `The cost of ${creditsText(paid)} was not returned.`;
}
