import type { Child } from "hono/jsx";
import { type Field, fields, findValueFault, textFields, wireValue } from "../../protocol/fields.ts";
import { defaultModel, findModel } from "../../protocol/models.ts";
import type { StartFormat } from "../api/start.ts";
import { type JsonBody, parseJson, refuse } from "../http/message.ts";
import { listImages, type StoredGeneration } from "../store/generations.ts";
import { requestBody } from "./again.ts";
import { allOffers, listChoices, type ModelChoice, type OfferedName } from "./choices.ts";
import { creditsText, priceText, shortText } from "./formatting.ts";
import { type CardProps, Cards, Selection } from "./gallery.tsx";
import { Layout } from "./layout.tsx";
import { Missing } from "./messages.tsx";
import type { PageParts } from "./parts.ts";
import { readValue } from "./query.ts";
import { accountOf, findShown, uuid } from "./visitor.ts";

/** So many of the generations that were started from the form are beside it. */
const maxMade = 12;
const maxTakes = 4;

/** Adds the form that starts a generation, and the route that it is sent to. */
export function addComposer({ app, options, send, signedIn, fromPage }: PageParts): void {
  const { store, queue, clock } = options;

  app.get("/new", signedIn, async (c) => {
    const [from, end] = [readValue(c, "from", uuid), readValue(c, "continue", uuid)];
    const parent = from ?? end;
    const begun = parent === undefined ? undefined : await findShown(c, store, parent);
    if (parent !== undefined && begun === undefined) return send(c, <Missing />, 404);
    const ids = (c.req.queries("made") ?? []).filter((id) => uuid.test(id)).slice(0, maxMade);
    const made = ids.length === 0 ? [] : await store.list({ ids, account: accountOf(c), limit: maxMade });
    const now = clock.date();
    const shown = {
      earlier: from === undefined ? undefined : begun,
      continued: from === undefined ? begun : undefined,
      models: await listChoices(c.var.account, options),
      credits: await store.balance(c.var.account),
      made: made.map((generation) => ({ generation, progress: queue.progressOf(generation.id), now })),
    };
    return send(c, <ComposerPage {...shown} />);
  });

  // The whole request of a generation, with its images, for a form that begins with it.
  app.get("/generations/:id/request", signedIn, async (c) => {
    const generation = await findShown(c, store, c.req.param("id"));
    if (!generation) throw refuse(404, "not_found", "there is no such generation");
    c.header("Cache-Control", "no-store");
    return c.json(requestBody(generation, await store.images(generation.id)));
  });

  app.post(
    "/generations",
    ...fromPage,
    async (c, next) => {
      c.set("isRoutine", false);
      // Without one, a second click would pay a second time.
      if (!c.req.header("Idempotency-Key"))
        throw refuse(400, "no_idempotency_key", "a start from the page needs an Idempotency-Key");
      await next();
    },
    options.startBy({
      types: ["application/json"],
      read: (c, bytes) => readFields(parseJson(c, bytes)),
      reply: ({ generation, replayed }) => ({ id: generation.id, isKnown: replayed }),
    } satisfies StartFormat),
  );
}

/** Returns what was typed as the command line would send it. Throws a refusal for what the command line would not send either. */
function readFields(body: JsonBody): JsonBody {
  const json = { ...(Object(body.json) as Record<string, unknown>) };
  for (const field of textFields) {
    const value = json[field.name];
    const fault = value === undefined ? undefined : findValueFault(field, String(value));
    if (fault !== undefined) throw refuse(400, `invalid_${field.name}`, `${field.name} ${fault}`);
    if (typeof value === "string") json[field.name] = wireValue(field, value);
  }
  return { ...body, json };
}

type ComposerProps = {
  /** The generation that the form begins with. */
  earlier?: StoredGeneration | undefined;
  /** The one whose last frame it begins with. */
  continued?: StoredGeneration | undefined;
  models: readonly ModelChoice[];
  credits: number;
  /** What was started from the form, newest first. */
  made: readonly CardProps[];
};

/** The form for new generations, beside what it has started. The browser keeps what is typed, and makes the Idempotency-Keys: see `browser/composer.ts`. */
function ComposerPage({ made, ...props }: ComposerProps) {
  const title = titleOf(props);
  return (
    <Layout title={title} current="/new">
      <h1>{title}</h1>
      <div class="making">
        <ComposerForm {...props} />
        <section class="made" aria-labelledby="made">
          <h2 id="made">From this form</h2>
          {made.length === 0 ? <p class="hint">What you generate appears here. The form keeps its values.</p> : null}
          <Cards cards={made} query="" id="list" name="From this form, newest first" />
          <Selection />
        </section>
      </div>
      <p class="without-script">
        Starting a generation here needs JavaScript; <code>vidgen generate</code> works without it.
      </p>
    </Layout>
  );
}

type Begins = Pick<ComposerProps, "earlier" | "continued">;

function titleOf({ earlier, continued }: Begins): string {
  if (continued) return "Continue from the end";
  return earlier ? "Another take" : "New generation";
}

/** What a form takes over of the video that it continues, beside its model. */
const continuedFields: readonly string[] = ["aspectRatio", "resolution"];

function ComposerForm({ earlier, continued, models, credits }: Omit<ComposerProps, "made">) {
  const known = new Set<string>(textFields.map(({ name }) => name));
  const extras = Object.fromEntries(Object.entries(earlier?.request.extras ?? {}).filter(([name]) => !known.has(name)));
  const images = listImages(earlier?.request ?? { images: [] });
  const model = findModelToChoose({ earlier, continued }, models);
  return (
    // Outside of a <dialog>, a browser sends no form with this method: before the script has loaded, Generate does nothing.
    <form
      id="composer"
      class="composer with-script"
      method="dialog"
      data-from={earlier?.id}
      data-continued={continued?.id}
      data-images={images.length || undefined}
    >
      {earlier ? <Parent earlier={earlier} model={model} /> : null}
      {continued ? <Continued continued={continued} model={model} /> : null}
      <div class="fields" data-own>
        <TextField field={fieldOf("prompt")} value={earlier?.request.prompt} hasFocus={earlier === undefined} />
        <ModelField models={models} chosen={model} />
        {textFields
          .filter(({ name }) => !["prompt", "model", "callback_url"].includes(name))
          .map((field) => (
            <ChoiceField
              field={field}
              value={typedValue(field, continuedFields.includes(field.name) ? (earlier ?? continued) : earlier)}
            />
          ))}
        <fieldset class="images field">
          <legend>Images</legend>
          <p class="hint">
            Drop or paste PNG, JPEG or WebP images, or{" "}
            <input
              id="files"
              data-field="imageUrls"
              type="file"
              accept="image/png,image/jpeg,image/webp"
              multiple
              aria-label="Choose images"
            />
          </p>
          <ul id="images"></ul>
        </fieldset>
        <details open={Object.keys(extras).length > 0 || Boolean(earlier?.callback_url)}>
          <summary>More fields</summary>
          <LabelledField label="Callback address">
            <input type="url" name="callback_url" value={earlier?.callback_url ?? ""} autocomplete="off" />
          </LabelledField>
          <LabelledField label={'Others, as JSON, such as {"fps": 24}'}>
            <textarea name="extras" rows={3} spellcheck={false} autocomplete="off">
              {Object.keys(extras).length === 0 ? "" : JSON.stringify(extras, null, 2)}
            </textarea>
          </LabelledField>
        </details>
        <p class="beside-send">
          <label hidden>
            <input type="checkbox" id="notify" /> Notify me when it ends
          </label>
          <button type="reset">Clear</button>
        </p>
      </div>
      <div class="send">
        <div data-own>
          <p id="form-error" class="error" role="alert" hidden></p>
          <p id="form-status" class="form-status" role="status"></p>
        </div>
        <div class="fields" data-own>
          <Takes />
          <button type="submit" class="main" autofocus={earlier !== undefined}>
            Generate
          </button>
        </div>
        {models.every((model) => model.credits === 0) ? null : <p id="balance">You have {creditsText(credits)}.</p>}
      </div>
    </form>
  );
}

type BegunProps = { text: string; generation: StoredGeneration; model: string | undefined; lack: string };

/** Names the generation that the form begins with, and says why another model than its own is chosen. */
function Begun({ text, generation: { id, request }, model, lack }: BegunProps) {
  return (
    <>
      <p class="hint">
        {text}{" "}
        <a href={`/generations/${id}`} dir="auto">
          {shortText(request.prompt, 80)}
        </a>
      </p>
      {model === request.model ? null : (
        <p class="hint">
          {model === undefined
            ? "No model of this service can begin with an image."
            : `${request.model} ${lack}, so ${model} is selected.`}
        </p>
      )}
    </>
  );
}

function Parent({ earlier, model }: { earlier: StoredGeneration; model: string | undefined }) {
  return (
    <div>
      <Begun text="Another take of" generation={earlier} model={model} lack="is no longer available" />
      {earlier.error_code === "unclear" ? (
        <p class="error">
          The engine's provider may have charged for the earlier generation, and it is unclear whether there is a video:
          check your account there. Generate starts another one, which is charged too.
        </p>
      ) : null}
    </div>
  );
}

function Continued({ continued, model }: { continued: StoredGeneration; model: string | undefined }) {
  const lack = "cannot begin with one image here";
  return (
    <div>
      <Begun text="Begins with the last frame of" generation={continued} model={model} lack={lack} />
    </div>
  );
}

/** The model of the earlier generation, or else the first one that can make what the form begins with; `undefined` where none can. */
function findModelToChoose({ earlier, continued }: Begins, models: ComposerProps["models"]): string | undefined {
  const beginsWithImage = ({ name, maxImages }: ModelChoice) =>
    maxImages > 0 && (findModel(name)?.images?.min ?? 1) <= 1;
  const able = continued ? models.filter(beginsWithImage) : models;
  const wanted = (earlier ?? continued)?.request.model ?? defaultModel;
  return (able.find(({ name }) => name === wanted) ?? able[0])?.name;
}

/** How many generations of the same request are started at once. */
function Takes() {
  return (
    <fieldset class="takes">
      <legend class="hidden">Takes</legend>
      <span aria-hidden="true">Takes</span>
      <span class="tabs">
        {Array.from({ length: maxTakes }, (_, index) => String(index + 1)).map((count) => (
          <label>
            <input type="radio" name="takes" value={count} checked={count === "1"} />
            {count}
          </label>
        ))}
      </span>
    </fieldset>
  );
}

function fieldOf(name: Field["name"]): Field {
  const field = fields.find((each) => each.name === name);
  if (!field) throw new Error(`no field ${name}`);
  return field;
}

function labelOf({ label, name }: Field): string {
  return label ?? name;
}

/** What is sent for a field; what the start left out stays out. */
function typedValue({ name }: Field, earlier: StoredGeneration | undefined): string | undefined {
  const { unset = [], extras = {}, ...request } = earlier?.request ?? {};
  const value = (request as Record<string, unknown>)[name] ?? extras[name];
  const isUnset = (unset as readonly string[]).includes(name);
  return value === undefined || isUnset ? undefined : String(value);
}

/** A field; the browser puts what is wrong with its value under it. */
function LabelledField({ label, children }: { label: string; children?: Child }) {
  return (
    <div class="field">
      {/* biome-ignore lint/a11y/noLabelWithoutControl: the control is among its children. */}
      <label>
        {label}
        {children}
      </label>
    </div>
  );
}

type TextFieldProps = { field: Field; value: string | undefined; hasFocus: boolean };

function TextField({ field, value = "", hasFocus }: TextFieldProps) {
  return (
    <LabelledField label={labelOf(field)}>
      <textarea
        name={field.name}
        rows={4}
        required
        autofocus={hasFocus}
        dir="auto"
        placeholder={field.question}
        aria-keyshortcuts="Control+Enter"
      >
        {value}
      </textarea>
    </LabelledField>
  );
}

function ModelField({ models, chosen }: { models: readonly ModelChoice[]; chosen: string | undefined }) {
  return (
    <LabelledField label="Model">
      <select name="model" required>
        {models.map((model) => (
          <option
            value={model.name}
            selected={model.name === chosen}
            data-credits={model.credits}
            data-images={model.maxImages}
            data-offers={JSON.stringify(model.offers)}
          >
            {[model.name, model.characteristic, model.isPreview ? "preview" : undefined, priceText(model.credits)]
              .filter((part) => part !== undefined)
              .join(" · ")}
          </option>
        ))}
      </select>
    </LabelledField>
  );
}

/** A value that may be left to the model: buttons for what the chosen one takes, and a field for others. */
function ChoiceField({ field, value = "" }: { field: Field; value: string | undefined }) {
  const { name, takes } = field;
  const label = labelOf(field);
  const offers = name in allOffers ? allOffers[name as OfferedName] : undefined;
  return (
    <div class="field">
      <label for={name}>{label}</label>
      <div class="offers">
        {offers && ["", ...offers].map((offer) => <Offer {...{ name, offer, label }} />)}
        <input
          id={name}
          name={name}
          value={value}
          inputmode={takes === "number" ? "decimal" : undefined}
          placeholder={offers ? "Other" : "Random"}
          autocomplete="off"
        />
      </div>
    </div>
  );
}

/** A button that fills a field in; without a value, it leaves the field to the model. */
function Offer({ name, offer, label }: { name: string; offer: string; label: string }) {
  const text = name === "duration" && offer !== "" ? `${offer} s` : offer || "Default";
  return (
    <button type="button" data-offer={name} value={offer} aria-label={`${label} ${text}`} aria-pressed="false">
      {text}
    </button>
  );
}
