/** A button that copies the text of the element with this id. It is shown if the browser can copy. */
export function Copy({ from, name }: { from: string; name: string }) {
  return (
    <button type="button" class="copy" data-copy={from} aria-label={`Copy ${name}`}>
      Copy
    </button>
  );
}
