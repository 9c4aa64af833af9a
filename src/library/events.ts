import type { BatchEvent as WireBatchEvent } from "../client/batch/iterate.ts";
import type { ErrorCode, LibraryErrorCode } from "../errors.ts";

type CamelName<Name> = Name extends `${infer First}_${infer Rest}` ? `${First}${Capitalize<CamelName<Rest>>}` : Name;

/** No signal ends a call of the library: its errors have no such codes. */
type Camel<Value> = Value extends object
  ? { [Name in keyof Value as CamelName<Name>]: Camel<Value[Name]> }
  : Value extends ErrorCode
    ? Extract<Value, LibraryErrorCode>
    : Value;

/** What happens in a batch, as `--events` tells it; the summary comes last, after the error that stopped the starts if one did. */
export type BatchEvent = Camel<WireBatchEvent>;

/** The event with the names of a program's objects. */
export function toBatchEvent(event: WireBatchEvent): BatchEvent {
  return camel(event) as BatchEvent;
}

function camel(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const named = Object.entries(value).map(([name, each]) => [
    name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    camel(each),
  ]);
  return Object.fromEntries(named);
}
