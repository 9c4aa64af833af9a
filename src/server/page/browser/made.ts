import { show } from "./live.ts";
import { changed } from "./place.ts";
import { keep, kept } from "./tab.ts";

/** The ids of the generations that were started in this tab, newest last. */
const startedKey = "vidgen made";

/** Stores a started generation, and shows it beside the form. */
export function addStarted(id: string): void {
  keep(startedKey, [...startedIds().filter((each) => each !== id), id]);
  showStarted();
}

/** Shows the generations that were started in this tab. Their ids are in the address of the request, as for every list. */
export function showStarted(): void {
  if (startedIds().length === 0) return;
  void show(
    changed((query) => {
      query.delete("made");
      for (const id of startedIds().slice(-maxShown)) query.append("made", id);
    }),
  );
}

/** The maximum that the service shows. */
const maxShown = 12;

function startedIds(): string[] {
  return kept(startedKey, []);
}
