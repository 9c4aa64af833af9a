/** A button that copies the text of an element, by its id. It is shown where the browser can copy. */
export function Copy({ from, name }: { from: string; name: string }) {
  return (
    <button type="button" class="copy" data-copy={from} aria-label={`Copy ${name}`}>
      Copy
    </button>
  );
}
