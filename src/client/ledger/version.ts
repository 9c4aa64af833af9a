import type { HttpResponse } from "../../io.ts";

type Headers = HttpResponse["headers"];

/**
 * The version of the video in a partial file, with the journal's field names: the value for If-Range, and the total size in
 * bytes. `etag` is strong; `last_modified` is set only without an ETag. Without either the download cannot be resumed.
 */
export type Version = { etag?: string | undefined; last_modified?: string | undefined; total?: number | undefined };

/** The value of If-Range. */
export function validatorOf({ etag, last_modified }: Version): string | undefined {
  return etag ?? last_modified;
}

/** The headers that request the rest of the same version; empty if the whole file must be fetched. */
export function rangeHeaders(size: number, version: Version): Record<string, string> {
  const validator = validatorOf(version);
  return size > 0 && validator !== undefined ? { Range: `bytes=${size}-`, "If-Range": validator } : {};
}

/** The version of a whole body. */
export function readVersion(headers: Headers): Version {
  // Lengths and ranges count encoded bytes, but the file has decoded ones.
  if (headers.get("Content-Encoding") !== null) return {};
  const length = headers.get("Content-Length") ?? "";
  return { ...readValidator(headers), total: /^\d+$/.test(length) ? Number(length) : undefined };
}

/** A date counts only without an ETag (RFC 9110, section 13.1.5), and only if it is strong. */
function readValidator(headers: Headers): Version {
  const etag = headers.get("ETag");
  if (etag !== null) return etag.startsWith('"') ? { etag } : {};
  const modified = headers.get("Last-Modified") ?? "";
  const ageMs = Date.parse(headers.get("Date") ?? "") - Date.parse(modified);
  // A date is strong if it is well before that of the reply, so that clock differences do not matter (section 8.8.2.2).
  return ageMs >= 60_000 ? { last_modified: modified } : {};
}

/** Whether the rest of a video belongs to the known version. A missing header is ignored (RFC 9110, section 15.3.7). */
export function isSameVersion(recorded: Version, headers: Headers, total: number | undefined): boolean {
  const etag = headers.get("ETag");
  const modified = headers.get("Last-Modified");
  return (
    (recorded.total === undefined || recorded.total === total) &&
    (etag === null || etag === recorded.etag) &&
    (modified === null || recorded.last_modified === undefined || modified === recorded.last_modified)
  );
}
