import { withQuery } from "./address.ts";
import { showAddress } from "./live.ts";
import { readFromTab, saveInTab } from "./tab.ts";

/** The name of the stored ids of the generations that were started in this tab, newest last. */
const startedKey = "vidgen started";

/** Stores a started generation, and shows it beside the form. */
export function addStarted(id: string): void {
  saveInTab(startedKey, [...startedIds().filter((each) => each !== id), id]);
  showStarted();
}

/** Shows the generations that were started in this tab. Their ids are in the page's address, from which the service builds the list. */
export function showStarted(): void {
  if (startedIds().length === 0) return;
  void showAddress(
    withQuery((query) => {
      query.delete("started");
      for (const id of startedIds().slice(-maxShown)) query.append("started", id);
    }),
  );
}

/** The maximum number of generations that the service shows beside the form. */
const maxShown = 12;

function startedIds(): string[] {
  return readFromTab(startedKey, []);
}
