import type { Child } from "hono/jsx";
import { fileName } from "../../video/naming.ts";
import { shortText } from "./formatting.ts";
import { keyed } from "./keys.ts";

export type MarksProps = {
  id: string;
  model: string;
  prompt: string;
  isStarred?: boolean | undefined;
  /** Only a video can be starred and downloaded. */
  hasVideo: boolean;
  /** Whether `Selection` is on the same page. */
  isSelectable?: boolean;
  /** Whether the symbols have words where no pointer hovers. A card hides them there. */
  hasWords?: boolean;
};

/** The controls of a generation in a list or a comparison. */
export function Marks({ id, model, prompt, isStarred, hasVideo, isSelectable = true, hasWords = false }: MarksProps) {
  const name = shortText(prompt, 60);
  return (
    <span class="marks">
      <a class="button mark" href={`/new?from=${id}`} aria-label={`Another take of ${name}`} {...keyed("again")}>
        ↻{hasWords ? <Word>Another take</Word> : null}
      </a>
      {hasVideo ? (
        <>
          <a
            class="button mark"
            href={`/new?continue=${id}`}
            aria-label={`Continue from the end of ${name}`}
            {...keyed("continue")}
          >
            ⇥{hasWords ? <Word>Continue</Word> : null}
          </a>
          <a
            class="button mark"
            href={`/videos/${id}.mp4`}
            download={fileName({ id, prompt, model })}
            aria-label={`Download ${name}`}
            {...keyed("download")}
          >
            ↓{hasWords ? <Word>Download</Word> : null}
          </a>
          <Star id={id} isStarred={isStarred} />
        </>
      ) : null}
      {isSelectable ? <SelectBox id={id} name={`Select ${name}`} /> : null}
    </span>
  );
}

/** The word of a control. The style sheet shows it where no pointer hovers, which would show its tooltip. */
function Word({ children }: { children: string }) {
  return (
    <span class="word" aria-hidden="true">
      {" "}
      {children}
    </span>
  );
}

/** A checkbox that selects a video for `Selection`. Without a `name`, it needs a label. */
export function SelectBox({ id, name }: { id: string; name?: string }) {
  return (
    <input
      type="checkbox"
      id={selectId(id)}
      name="id"
      value={id}
      form="selection"
      data-own
      aria-label={name}
      {...keyed("select")}
    />
  );
}

export function selectId(id: string): string {
  return `select-${id}`;
}

type StarProps = { id: string; isStarred: boolean | undefined; children?: Child };

/** A button that marks a generation as one of the best, or removes the mark. Without a text, it is only a symbol. */
export function Star({ id, isStarred = false, children }: StarProps) {
  return (
    <button
      type="button"
      class={children === undefined ? "mark star with-script" : "star with-script"}
      data-star={`/generations/${id}/star`}
      aria-pressed={isStarred ? "true" : "false"}
      aria-label="Star"
      {...keyed("star")}
    >
      {children}
    </button>
  );
}
