import type { Child } from "hono/jsx";
import { type ClockKind, clockText } from "./formatting.ts";

/** A button that copies the text of the element with the id `from`. It is hidden where the browser cannot copy. */
export function CopyButton({ from, name }: { from: string; name: string }) {
  return (
    <button type="button" class="copy" data-copy={from} aria-label={`Copy ${name}`}>
      Copy
    </button>
  );
}

/** A fact in a `<dl class="facts-table">`. */
export function Fact({ name, children }: { name: string; children?: Child }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd dir="auto">{children}</dd>
    </div>
  );
}

/** A clock time. The script converts it to the browser's time zone. */
export function ClockTime({ at, kind = "time" }: { at: string; kind?: ClockKind }) {
  return (
    <time datetime={at} title={at} data-clock={kind}>
      {clockText(at, kind, "UTC")} UTC
    </time>
  );
}

/** A button and the menu that it opens. The browser closes the menu on Escape and on a click elsewhere. */
export function Menu({ id, name, children }: { id: string; name: string; children?: Child }) {
  return (
    <>
      <button type="button" class="opens-menu" popovertarget={id}>
        {name}
      </button>
      <div id={id} class="menu" popover="auto">
        {children}
      </div>
    </>
  );
}

/** What follows a list. The style sheet shows it while the list is empty, also after a live update. `all` is the address without a filter. */
export function EmptyList({ title, all, children }: { title: string; all?: string | undefined; children?: Child }) {
  return (
    <section class="empty">
      <h2>{title}</h2>
      {all === undefined ? (
        children
      ) : (
        <p>
          <a href={all}>Show all</a>
        </p>
      )}
    </section>
  );
}

/** The head of a table. Numbers are in the columns of `numbers`. */
export function TableHead({ columns, numbers = [] }: { columns: readonly string[]; numbers?: readonly string[] }) {
  return (
    <thead>
      <tr>
        {columns.map((name) => (
          <th scope="col" class={numbers.includes(name) ? "number" : undefined}>
            {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}

type TableSectionProps = {
  heading: string;
  columns: readonly string[];
  numbers: readonly string[];
  /** In place of the table, if it has no rows. */
  empty?: string | false;
  children?: Child;
};

/** A table under a heading; its children are the rows. */
export function TableSection({ heading, columns, numbers, empty = false, children }: TableSectionProps) {
  return (
    <section>
      <h2>{heading}</h2>
      {empty !== false ? (
        <p class="hint">{empty}</p>
      ) : (
        <table class="ledger">
          <TableHead columns={columns} numbers={numbers} />
          <tbody>{children}</tbody>
        </table>
      )}
    </section>
  );
}
