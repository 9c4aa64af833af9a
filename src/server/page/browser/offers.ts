/** The buttons beside a field set its value. */
export function listenForOffers(form: HTMLFormElement): void {
  form.addEventListener("click", ({ target }) => {
    const button = target instanceof Element ? target.closest<HTMLButtonElement>("[data-offer]") : null;
    const field = button && form.querySelector<HTMLInputElement>(`[name=${button.dataset.offer}]`);
    if (!field) return;
    field.value = button.value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

/** Shows the buttons for values that the model takes, and presses those of the current values. */
export function showOffers(form: HTMLFormElement, model: HTMLOptionElement | undefined): void {
  const offers: Record<string, string[]> = JSON.parse(model?.dataset.offers ?? "{}");
  for (const button of form.querySelectorAll<HTMLButtonElement>("[data-offer]")) {
    const { value, dataset } = button;
    const { offer: name = "" } = dataset;
    const field = form.querySelector<HTMLInputElement>(`[name=${name}]`);
    button.hidden = value !== "" && offers[name]?.includes(value) === false;
    button.ariaPressed = String(field?.value.trim() === value);
  }
}
