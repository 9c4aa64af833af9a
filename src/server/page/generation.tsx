import type { LedgerEntry } from "../store/store.ts";
import type { Again } from "./again.ts";
import { DeliveryItem, type Sign } from "./callbacks.tsx";
import { sizeText } from "./formatting.ts";
import { Progress, State } from "./gallery.tsx";
import { Layout } from "./layout.tsx";
import { Timeline, type TimelineProps } from "./timeline.tsx";

export type GenerationProps = TimelineProps & {
  again: Again;
  /** What was paid for it, and given back. */
  payments: readonly LedgerEntry[];
  sign: Sign;
};

/** One generation: its video, what was asked for, what happened when, and how to make it again. */
export function GenerationPage(props: GenerationProps) {
  const { generation, again, delivery, sign, now } = props;
  const { id, request } = generation;
  return (
    <Layout title={`${id.slice(0, 8)}, ${request.model}`} current="/">
      <article class="generation" data-generation={id} aria-labelledby="heading">
        <div class="first">
          <Player {...props} />
          <section>
            <h1 id="heading">
              <span class="hidden">Generation {id.slice(0, 8)}: the </span>Prompt
            </h1>
            <section class="whole-prompt" dir="auto" tabindex={0} aria-labelledby="heading">
              {request.prompt}
            </section>
          </section>
        </div>
        <div class="second">
          <Facts {...props} />
          <section>
            <h2>Timeline</h2>
            <Timeline {...props} />
          </section>
        </div>
        {generation.callback_url === null ? null : (
          <section class="wide">
            <h2>Callback</h2>
            <ul class="deliveries" data-list="callback">
              {delivery === undefined ? null : <DeliveryItem delivery={delivery} sign={sign} now={now} />}
            </ul>
          </section>
        )}
        <section class="wide">
          <h2>Make it again</h2>
          {again.hasData ? <p class="hint">An image was sent within the request, and is left out here.</p> : null}
          <Code name="vidgen" text={again.vidgen} />
          <Code name="curl" text={again.curl} />
          <Code name="JSON" text={again.json} />
        </section>
      </article>
    </Layout>
  );
}

function Player({ generation, percent }: GenerationProps) {
  const { id, status, media, error } = generation;
  if (status === "processing")
    return (
      <div class="stage running large" data-part="player">
        <p>Being made</p>
        <Progress id={id} percent={percent} />
      </div>
    );
  if (!media)
    return (
      <div class="error" data-part="player">
        <h2>This generation failed</h2>
        <p dir="auto">{error}</p>
      </div>
    );
  const video = `/videos/${id}.mp4`;
  return (
    <div class="player" data-part="player">
      {/* biome-ignore lint/a11y/useMediaCaption: there are no captions of a generated video. */}
      <video
        src={video}
        poster={media.thumbnail === null ? undefined : `/videos/${id}.png`}
        controls
        loop
        playsinline
        preload="metadata"
        aria-labelledby="heading"
      ></video>
      <a class="button" href={video} download={`${id.slice(0, 8)}.mp4`}>
        Download, {sizeText(media.size)}
      </a>
    </div>
  );
}

function Facts({ generation, payments }: GenerationProps) {
  const { id, account, status, request } = generation;
  const { model, aspectRatio, duration, resolution, images } = request;
  return (
    <dl class="facts-table" data-part="facts">
      <Fact name="State">
        <State status={status} />
      </Fact>
      <Fact name="Model">{model}</Fact>
      <Fact name="Video">{`${aspectRatio}, ${duration} s, ${resolution}`}</Fact>
      {images.length === 0 ? null : <Fact name="Images">{images.length}</Fact>}
      {Object.entries(request.extras).map(([name, value]) => (
        <Fact name={name}>{typeof value === "string" ? value : JSON.stringify(value)}</Fact>
      ))}
      <Fact name="Cost">{costText(payments, generation.cost)}</Fact>
      <Fact name="Account">{account}</Fact>
      <Fact name="Id">
        <code>{id}</code>
      </Fact>
    </dl>
  );
}

function costText(payments: GenerationProps["payments"], usd: number | null): string {
  const paid = payments.find(({ amount }) => amount < 0);
  const isBack = payments.some(({ amount }) => amount > 0);
  const credits = paid && `${-paid.amount} credits${isBack ? ", given back" : ""}`;
  const charged = usd === null ? undefined : `$${usd.toFixed(2)} at its provider`;
  return [credits, charged].filter((part) => part !== undefined).join("; ") || "nothing";
}

function Fact({ name, children }: { name: string; children?: unknown }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd dir="auto">{children}</dd>
    </div>
  );
}

/** A text to copy. The button appears where the browser can copy. */
function Code({ name, text }: { name: string; text: string }) {
  return (
    <figure class="code">
      <figcaption>
        {name}
        <button type="button" data-copy hidden>
          Copy<span class="hidden"> {name}</span>
        </button>
      </figcaption>
      <section tabindex={0} aria-label={name}>
        <pre>{text}</pre>
      </section>
    </figure>
  );
}
