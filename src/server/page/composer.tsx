import type { Child } from "hono/jsx";
import { type Field, fields, findValueFault, textFields } from "../../client/request/fields.ts";
import { defaultModel, findModel } from "../../client/request/models.ts";
import { type StartFormat, usualCost } from "../api/start.ts";
import { type JsonBody, parseJson, refuse } from "../http/message.ts";
import { listImages, type StoredGeneration } from "../store/generations.ts";
import { requestBody } from "./again.ts";
import { countText, shortText } from "./formatting.ts";
import { Layout } from "./layout.tsx";
import { Missing } from "./messages.tsx";
import type { PageOptions, PageParts } from "./parts.ts";
import { readValue } from "./query.ts";
import { findShown, uuid } from "./visitor.ts";

/** Adds the form that starts a generation, and the route that it is sent to. */
export function addComposer({ app, options, send, signedIn, fromPage }: PageParts): void {
  const { store } = options;
  app.get("/new", signedIn, async (c) => {
    const [from, end] = [readValue(c, "from", uuid), readValue(c, "continue", uuid)];
    const id = from ?? end;
    const begun = id === undefined ? undefined : await findShown(c, store, id);
    if (id !== undefined && begun === undefined) return send(c, <Missing />, 404);
    const credits = await store.balance(c.var.account);
    const beginning = from === undefined ? { continued: begun } : { earlier: begun };
    return send(c, <ComposerPage {...beginning} models={modelsOf(options)} credits={credits} />);
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
      if (c.env.log) c.env.log.isRoutine = false;
      // Without one, a second click would pay a second time.
      if (!c.req.header("Idempotency-Key"))
        throw refuse(400, "no_idempotency_key", "a start from the page needs an Idempotency-Key");
      await next();
    },
    options.startBy({
      types: ["application/json"],
      read: (c, bytes) => checkFields(parseJson(c, bytes)),
      reply: ({ generation, replayed }) => ({ id: generation.id, isKnown: replayed }),
    } satisfies StartFormat),
  );
}

/** Throws a refusal for what the command line would not send either. */
function checkFields(body: JsonBody): JsonBody {
  const values = Object(body.json) as Record<string, unknown>;
  for (const field of textFields) {
    const value = values[field.name];
    const fault = value === undefined ? undefined : findValueFault(field, String(value));
    if (fault !== undefined) throw refuse(400, `invalid_${field.name}`, `${field.name} ${fault}`);
  }
  return body;
}

type Model = { name: string; credits: number; maxImages: number; isPreview: boolean };

/** The models that can be chosen, in the order of the engines: what a real one makes, no preview does. */
function modelsOf({ engines, creditsPer }: Pick<PageOptions, "engines" | "creditsPer">): Model[] {
  const names = new Set(engines.flatMap(({ models }) => models));
  return [...names].map((name) => {
    const able = engines.filter(({ models }) => models.includes(name));
    const real = able.filter(({ isSimulation }) => !isSimulation);
    const makers = real.length > 0 ? real : able;
    const maxImages = findModel(name)?.images?.max ?? Math.max(...makers.map((engine) => engine.maxImages));
    return { name, credits: creditsPer.get(name) ?? usualCost, maxImages, isPreview: real.length === 0 };
  });
}

type ComposerProps = {
  /** The generation whose request the form begins with. */
  earlier?: StoredGeneration | undefined;
  /** The one whose last frame it begins with. */
  continued?: StoredGeneration | undefined;
  models: readonly Model[];
  credits: number;
};

/** What a form takes over of the video that it continues. */
const continuedFields: readonly string[] = ["aspectRatio", "resolution"];

/** The form for a new generation. The browser keeps what is typed, and makes the Idempotency-Key: see `browser/composer.ts`. */
function ComposerPage({ earlier, continued, models, credits }: ComposerProps) {
  const known = new Set<string>(textFields.map(({ name }) => name));
  const extras = Object.fromEntries(Object.entries(earlier?.request.extras ?? {}).filter(([name]) => !known.has(name)));
  const images = listImages(earlier?.request ?? { images: [] });
  const newTitle = continued ? "Continue from the end" : "New generation";
  const title = earlier ? "Edit and run again" : newTitle;
  return (
    <Layout title={title} current="/new">
      <form
        id="composer"
        class="composer with-script"
        data-own
        data-from={(earlier ?? continued)?.id}
        data-images={images.length > 0 ? "request" : continued && "last frame"}
      >
        <h1>{title}</h1>
        {continued ? <Continued {...{ continued, models }} /> : null}
        {earlier?.error_code === "unclear" ? (
          <p class="error">
            The engine's provider may have charged for the earlier generation, and it is unclear whether there is a
            video: check your account there. Generate starts another one, which is charged too.
          </p>
        ) : null}
        <TextField field={fieldOf("prompt")} value={earlier?.request.prompt} hasFocus={continued !== undefined} />
        <div class="choices">
          <ModelField
            models={models}
            chosen={continued ? modelToContinue(continued, models) : earlier?.request.model}
          />
          {textFields
            .filter(({ name }) => !["prompt", "model", "callback_url"].includes(name))
            .map((field) => (
              <ChoiceField
                field={field}
                value={typedValue(field, continuedFields.includes(field.name) ? (earlier ?? continued) : earlier)}
              />
            ))}
        </div>
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
        <p id="trouble" class="error" role="alert" hidden></p>
        <div role="status">
          <p id="known" class="known" hidden>
            This was already started, and nothing was charged now. <a href="/">Open it</a>{" "}
            <button type="button" id="again">
              Start another take
            </button>
          </p>
        </div>
        <div class="send">
          <button type="submit" class="main">
            Generate
          </button>
          <p>
            <output id="cost"></output> of <span id="credits">{countText(credits)}</span> credits.
          </p>
          <label hidden>
            <input type="checkbox" id="notify" /> Notify me when it ends
          </label>
          <button type="reset">Clear</button>
        </div>
      </form>
      <p class="without-script">
        Starting a generation here needs JavaScript; <code>vidgen generate</code> works without it.
      </p>
    </Layout>
  );
}

/** Says what the form continues; and so where the model of that video cannot. */
function Continued({ continued, models }: { continued: StoredGeneration; models: readonly Model[] }) {
  const { id, request } = continued;
  const model = modelToContinue(continued, models);
  return (
    <div class="hint">
      <p>
        Begins with the last frame of <a href={`/generations/${id}`}>{shortText(request.prompt, 80)}</a>.
      </p>
      {model === request.model ? null : (
        <p>
          {model === undefined
            ? "No model of this service can begin with an image."
            : `${request.model} cannot begin with one image here, so ${model} is chosen.`}
        </p>
      )}
    </div>
  );
}

/** The model of a video, or else the first one that can begin with one image; `undefined` where none can. */
function modelToContinue({ request }: StoredGeneration, models: readonly Model[]): string | undefined {
  const able = models.filter(({ name, maxImages }) => maxImages > 0 && (findModel(name)?.images?.min ?? 1) <= 1);
  return (able.find(({ name }) => name === request.model) ?? able[0])?.name;
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
        rows={5}
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

function ModelField({ models, chosen = defaultModel }: { models: readonly Model[]; chosen: string | undefined }) {
  return (
    <LabelledField label="Model">
      <select name="model" required>
        {models.map(({ name, credits, maxImages, isPreview }) => (
          <option value={name} selected={name === chosen} data-credits={credits} data-images={maxImages}>
            {isPreview ? `${name} (preview)` : name}
          </option>
        ))}
      </select>
    </LabelledField>
  );
}

/** A value that may be left to the model. Others than those that are offered are accepted too. */
function ChoiceField({ field, value = "" }: { field: Field; value: string | undefined }) {
  const { name, suggestions = [], takes } = field;
  const list = `offered-${name}`;
  return (
    <LabelledField label={labelOf(field)}>
      <input
        name={name}
        value={value}
        list={suggestions.length > 0 ? list : undefined}
        inputmode={takes === "number" ? "decimal" : undefined}
        placeholder={takes === "number" ? "Seconds" : "Any"}
        autocomplete="off"
      />
      {suggestions.length > 0 ? (
        <datalist id={list}>
          {suggestions.map(([each]) => (
            <option value={each}></option>
          ))}
        </datalist>
      ) : null}
    </LabelledField>
  );
}
