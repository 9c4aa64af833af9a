import type { Child } from "hono/jsx";
import { type Field, fields, findValueFault, textFields, wireValue } from "../../protocol/fields.ts";
import { defaultModel, findModel } from "../../protocol/models.ts";
import { refuseKey } from "../api/idempotency.ts";
import type { StartFormat } from "../api/start.ts";
import { adviseOn, failureTitle } from "../engines/failure-hint.ts";
import { type JsonBody, parseJson, refuse } from "../http/message.ts";
import { listImages, type StoredGeneration } from "../store/generations.ts";
import { requestBody } from "./again.ts";
import { allOffers, listChoices, type ModelChoice, type OfferedName } from "./choices.ts";
import { creditsText, priceText, shortText } from "./formatting.ts";
import { type CardProps, Cards, readCards, Selection } from "./gallery.tsx";
import { Layout } from "./layout.tsx";
import { NoGeneration } from "./messages.tsx";
import type { PageParts } from "./parts.ts";
import { readValue } from "./query.ts";
import { accountOf, findVisible, uuid } from "./visitor.ts";

/** The maximum number of started generations that are shown beside the form. */
const maxStarted = 12;
const maxTakes = 4;

/** Adds the form that starts generations, and its routes. */
export function addComposer({ app, options, send, signedIn, fromPage }: PageParts): void {
  const { store } = options;

  app.get("/new", signedIn, async (c) => {
    const [from, continuedId] = [readValue(c, "from", uuid), readValue(c, "continue", uuid)];
    const originId = from ?? continuedId;
    const origin = originId === undefined ? undefined : await findVisible(c, store, originId);
    if (originId !== undefined && origin === undefined) return send(c, <NoGeneration />, 404);
    const ids = (c.req.queries("started") ?? []).filter((id) => uuid.test(id)).slice(0, maxStarted);
    const started = ids.length === 0 ? [] : await store.list({ ids, account: accountOf(c), limit: maxStarted });
    const shown = {
      earlier: from === undefined ? undefined : origin,
      continued: from === undefined ? origin : undefined,
      models: await listChoices(c.var.account, options),
      credits: await store.balance(c.var.account),
      started: await readCards(started, options),
    };
    return send(c, <ComposerPage {...shown} />);
  });

  // The request of a generation with its images, for a form that repeats it.
  app.get("/generations/:id/request", signedIn, async (c) => {
    const generation = await findVisible(c, store, c.req.param("id"));
    if (!generation) throw refuse(404, "not_found", "there is no such generation");
    c.header("Cache-Control", "no-store");
    return c.json(requestBody(generation, await store.images(generation.id)));
  });

  app.post(
    "/generations",
    ...fromPage,
    async (c, next) => {
      c.set("isRoutine", false);
      // Without a key, a second click would start and charge another generation.
      if (!c.req.header("Idempotency-Key"))
        throw refuseKey(400, "no_idempotency_key", "a start from the page needs an Idempotency-Key");
      await next();
    },
    options.startBy({
      types: ["application/json"],
      read: (c, bytes) => readFields(parseJson(c, bytes)),
      reply: ({ generation, replayed }) => ({ id: generation.id, isKnown: replayed }),
    } satisfies StartFormat),
  );
}

/** Checks and converts the typed values as the command line does. Throws a refusal for an invalid value. */
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
  /** The generation whose request the form repeats. */
  earlier?: StoredGeneration | undefined;
  /** The generation that the form continues: its last frame is the first image. */
  continued?: StoredGeneration | undefined;
  models: readonly ModelChoice[];
  credits: number;
  /** The generations that were started from the form, newest first. */
  started: readonly CardProps[];
};

/**
 * The form for new generations, and beside it the generations it has started. The script stores the typed values and creates the Idempotency-Keys:
 * see `browser/composer.ts`.
 */
function ComposerPage({ started, ...props }: ComposerProps) {
  const title = titleOf(props);
  return (
    <Layout title={title} current="/new">
      <div class="title">
        <h1>{title}</h1>
        <button type="reset" form="composer" class="with-script">
          Clear
        </button>
      </div>
      <div class="composing">
        <ComposerForm {...props} />
        <section class="started" aria-labelledby="started">
          <h2 id="started">From this form</h2>
          {started.length === 0 ? <p class="hint">What you generate appears here. The form keeps its values.</p> : null}
          <Cards cards={started} query="" id="list" name="From this form, newest first" />
          <Selection />
        </section>
      </div>
      <p class="without-script">
        Starting a generation here needs JavaScript; <code>vidgen generate</code> works without it.
      </p>
    </Layout>
  );
}

type FormOrigin = Pick<ComposerProps, "earlier" | "continued">;

function titleOf({ earlier, continued }: FormOrigin): string {
  if (continued) return "Continue from the end";
  return earlier ? "Another take" : "New generation";
}

const offeredNames = Object.keys(allOffers) as OfferedName[];
/** The fields that the form copies from a generation that it continues, besides the model. */
const continuedFields: readonly string[] = ["aspectRatio", "resolution"];

function ComposerForm({ earlier, continued, models, credits }: Omit<ComposerProps, "started">) {
  const known = new Set<string>(textFields.map(({ name }) => name));
  const extras = Object.fromEntries(Object.entries(earlier?.request.extras ?? {}).filter(([name]) => !known.has(name)));
  const images = listImages(earlier?.request ?? { images: [] });
  const model = findInitialModel({ earlier, continued }, models);
  const seed = typedValue(fieldOf("seed"), earlier);
  return (
    // Outside of a <dialog>, a form with this method is not sent: Generate does nothing before the script has loaded.
    <form
      id="composer"
      class="composer with-script"
      method="dialog"
      data-from={earlier?.id}
      data-continued={continued?.id}
      data-images={images.length || undefined}
    >
      {earlier ? <EarlierHint earlier={earlier} model={model} /> : null}
      {continued ? <ContinuedHint continued={continued} model={model} /> : null}
      <div class="fields" data-own>
        <TextField field={fieldOf("prompt")} value={earlier?.request.prompt} hasFocus={earlier === undefined} />
        <fieldset class="images field">
          <legend>Images</legend>
          <label class="button">
            Choose images
            <input
              id="files"
              class="hidden"
              data-field="imageUrls"
              type="file"
              accept="image/png,image/jpeg,image/webp"
              multiple
            />
          </label>{" "}
          <span class="hint">or drop or paste them: PNG, JPEG, WebP</span>
          <ul id="images"></ul>
        </fieldset>
        <ModelField models={models} chosen={model} />
        {offeredNames.map(fieldOf).map((field) => (
          <ChoiceField
            field={field}
            value={typedValue(field, continuedFields.includes(field.name) ? (earlier ?? continued) : earlier)}
          />
        ))}
        <details open={Object.keys(extras).length > 0 || Boolean(earlier?.callback_url) || seed !== undefined}>
          <summary>More</summary>
          <LabelledField label="Seed">
            <input name="seed" value={seed ?? ""} inputmode="decimal" placeholder="Random" autocomplete="off" />
          </LabelledField>
          <LabelledField label="Callback address">
            <input type="url" name="callback_url" value={earlier?.callback_url ?? ""} autocomplete="off" />
          </LabelledField>
          <LabelledField label={'Others, as JSON, such as {"fps": 24}'}>
            <textarea name="extras" rows={3} spellcheck={false} autocomplete="off">
              {Object.keys(extras).length === 0 ? "" : JSON.stringify(extras, null, 2)}
            </textarea>
          </LabelledField>
        </details>
        <label hidden>
          <input type="checkbox" id="notify" /> Notify me when it ends
        </label>
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

type OriginProps = { text: string; generation: StoredGeneration; model: string | undefined; reason: string };

/** Names the generation that the form repeats or continues, and says why a different model is selected. */
function OriginHint({ text, generation: { id, request }, model, reason }: OriginProps) {
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
            : `${request.model} ${reason}, so ${model} is selected.`}
        </p>
      )}
    </>
  );
}

function EarlierHint({ earlier, model }: { earlier: StoredGeneration; model: string | undefined }) {
  return (
    <div>
      <OriginHint text="Another take of" generation={earlier} model={model} reason="is no longer available" />
      {earlier.error_code === "unclear" ? (
        <p class="error">
          {`${failureTitle(earlier)}. ${adviseOn(earlier)} Generate starts another one, which is charged too.`}
        </p>
      ) : null}
    </div>
  );
}

function ContinuedHint({ continued, model }: { continued: StoredGeneration; model: string | undefined }) {
  const reason = "cannot begin with one image here";
  return (
    <div>
      <OriginHint text="Begins with the last frame of" generation={continued} model={model} reason={reason} />
    </div>
  );
}

/** The model of the generation that the form repeats or continues, if it can be used; else the first model that can be. */
function findInitialModel({ earlier, continued }: FormOrigin, models: ComposerProps["models"]): string | undefined {
  const beginsWithImage = ({ name, maxImages }: ModelChoice) =>
    maxImages > 0 && (findModel(name)?.images?.min ?? 1) <= 1;
  const usable = continued ? models.filter(beginsWithImage) : models;
  const wanted = (earlier ?? continued)?.request.model ?? defaultModel;
  return (usable.find(({ name }) => name === wanted) ?? usable[0])?.name;
}

/** The number of generations to start with the same request. */
function Takes() {
  return (
    <fieldset class="takes">
      <legend>Takes</legend>
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

/** The value of a field in the earlier request; `undefined` if it was not set. */
function typedValue({ name }: Field, earlier: StoredGeneration | undefined): string | undefined {
  const { unset = [], extras = {}, ...request } = earlier?.request ?? {};
  const value = (request as Record<string, unknown>)[name] ?? extras[name];
  const isUnset = (unset as readonly string[]).includes(name);
  return value === undefined || isUnset ? undefined : String(value);
}

/** A field with a label. The script shows an error below it. */
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
            data-usd-prices={JSON.stringify(model.usdPrices)}
            data-images={model.maxImages}
            data-offers={JSON.stringify(model.offers)}
          >
            {[model.name, model.isPreview ? "preview" : model.characteristic, priceText(model.credits)]
              .filter((part) => part !== undefined)
              .join(" · ")}
          </option>
        ))}
      </select>
    </LabelledField>
  );
}

/** An optional value: buttons for usual values that the selected model takes, and a field for others. */
function ChoiceField({ field, value = "" }: { field: Field; value: string | undefined }) {
  const { name, takes } = field;
  const label = labelOf(field);
  return (
    <div class="field">
      <label for={name}>{label}</label>
      <div class="offers">
        {["", ...allOffers[name as OfferedName]].map((offer) => (
          <Offer {...{ name, offer, label }} />
        ))}
        <input
          id={name}
          name={name}
          value={value}
          inputmode={takes === "number" ? "decimal" : undefined}
          placeholder="Other"
          autocomplete="off"
        />
      </div>
    </div>
  );
}

/** A button that sets a field; with the empty value, the model chooses. */
function Offer({ name, offer, label }: { name: string; offer: string; label: string }) {
  const text = name === "duration" && offer !== "" ? `${offer} s` : offer || "Default";
  return (
    <button type="button" data-offer={name} value={offer} aria-label={`${label} ${text}`} aria-pressed="false">
      {text}
    </button>
  );
}
