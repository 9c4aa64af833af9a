import { show } from "./live.ts";
import { changed } from "./place.ts";
import { keep, kept } from "./tab.ts";

/** The ids of what was started in this tab, newest last. */
const madeKey = "vidgen made";

/** Keeps what was started, and shows it beside the form. */
export function addMade(id: string): void {
  keep(madeKey, [...made().filter((each) => each !== id), id]);
  showMade();
}

/** Shows what was started in this tab: the address names it, as that of every list. */
export function showMade(): void {
  if (made().length === 0) return;
  void show(
    changed((query) => {
      query.delete("made");
      for (const id of made().slice(-maxMade)) query.append("made", id);
    }),
  );
}

/** The service shows no more of them. */
const maxMade = 12;

function made(): string[] {
  return kept(madeKey, []);
}
