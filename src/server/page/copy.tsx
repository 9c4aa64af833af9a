/** A button that copies the text of the element with the id `from`. It is hidden where the browser cannot copy. */
export function CopyButton({ from, name }: { from: string; name: string }) {
  return (
    <button type="button" class="copy" data-copy={from} aria-label={`Copy ${name}`}>
      Copy
    </button>
  );
}
