import { fileName } from "../../video/naming.ts";
import { shortText } from "./formatting.ts";
import { shortcutAttributes } from "./keys.ts";

export type GenerationControlsProps = {
  id: string;
  model: string;
  prompt: string;
  isStarred?: boolean | undefined;
  /** Only a video can be starred and downloaded. */
  hasVideo: boolean;
  /** Whether the page has `Selection`, which uses the checkbox. */
  isSelectable?: boolean;
};

/** What can be done with a generation in a list or a comparison: buttons and a checkbox. */
export function GenerationControls({
  id,
  model,
  prompt,
  isStarred,
  hasVideo,
  isSelectable = true,
}: GenerationControlsProps) {
  const name = shortText(prompt, 60);
  return (
    <span class="controls">
      <a
        class="button control"
        href={`/new?from=${id}`}
        aria-label={`Another take of ${name}`}
        {...shortcutAttributes("again")}
      >
        Take
      </a>
      {hasVideo ? (
        <>
          <a
            class="button control"
            href={`/new?continue=${id}`}
            aria-label={`Continue from the end of ${name}`}
            {...shortcutAttributes("continue")}
          >
            Continue
          </a>
          <a
            class="button control"
            href={`/videos/${id}.mp4`}
            download={fileName({ id, prompt, model })}
            aria-label={`Download ${name}`}
            {...shortcutAttributes("download")}
          >
            Download
          </a>
          <Star id={id} isStarred={isStarred} isControl />
        </>
      ) : null}
      {isSelectable ? <SelectBox id={id} name={`Select ${name}`} /> : null}
    </span>
  );
}

/** The checkbox that selects a video for `Selection`. Without a `name`, the caller must add a label. */
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
      {...shortcutAttributes("select")}
    />
  );
}

export function selectId(id: string): string {
  return `select-${id}`;
}

type StarProps = { id: string; isStarred: boolean | undefined; isControl?: boolean };

/** The button that adds or removes the star of a generation. */
export function Star({ id, isStarred = false, isControl = false }: StarProps) {
  return (
    <button
      type="button"
      class={isControl ? "control star with-script" : "star with-script"}
      data-star={`/generations/${id}/star`}
      aria-pressed={isStarred ? "true" : "false"}
      {...shortcutAttributes("star")}
    >
      Star
    </button>
  );
}
