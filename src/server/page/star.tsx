/** A button that marks a generation as one of the best, or no longer. */
export function Star({ id, isStarred = false }: { id: string; isStarred?: boolean | undefined }) {
  return (
    <button
      type="button"
      class="star with-script"
      data-star={`/generations/${id}/star`}
      aria-pressed={isStarred ? "true" : "false"}
      aria-label="Star"
    >
      {isStarred ? "★" : "☆"}
    </button>
  );
}
