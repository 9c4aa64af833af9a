import { cutRequest } from "./cut-request.ts";
import { type StoredGeneration, stateOf } from "./generations.ts";
import { needsOf, toNames } from "./needs.ts";
import { searchText } from "./search.ts";
import { toJson } from "./values.ts";

/** Returns the columns of a generation that starts, which both databases have, the text that a search finds, and the images, which have own rows. */
export function toNewRow(generation: StoredGeneration) {
  const { account, id, status, created_at, completed_at, request, callback_url } = generation;
  const { checkpoint, error, media, cost } = generation;
  const { model, images, isReal, names, isFetched, engine, isSubmitting } = needsOf(generation);
  const cut = cutRequest(request);
  const label = request.label?.name ?? null;
  const columns = {
    account,
    id,
    status,
    created_at,
    completed_at,
    asked: toJson({ request: cut.request, callback_url }),
    checkpoint: checkpoint && toJson(checkpoint),
    result: toJson({ error, media, cost }),
    secrets: cut.secrets && toJson(cut.secrets),
    model,
    images,
    is_real: isReal,
    names: toNames(names),
    is_fetched: isFetched,
    engine,
    is_submitting: isSubmitting,
    label,
    state: stateOf(generation),
  };
  return { columns, searched: searchText(request.prompt, id, model, label), images: cut.images };
}
