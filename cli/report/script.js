// Comfort only: the page says everything without it. Points show their values where they are
// pointed at or touched, and strategies can be hidden by their names.
document.documentElement.classList.add('script');

const tip = document.getElementById('tip');
for (const title of document.querySelectorAll('.hit > title')) {
  const text = title.textContent;
  const mark = title.parentNode;
  title.remove();  // else the browser would show it, too
  mark.setAttribute('aria-label', text);
  mark.addEventListener('pointerenter', (event) => {
    tip.textContent = text;
    tip.style.display = 'block';
    tip.style.left = Math.max(8, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + 'px';
    tip.style.top = Math.max(8, event.clientY - tip.offsetHeight - 10) + 'px';
  });
  mark.addEventListener('pointerleave', () => { tip.style.display = 'none'; });
}

for (const button of document.querySelectorAll('.legend button')) {
  button.addEventListener('click', () => {
    const hide = button.getAttribute('aria-pressed') === 'true';
    button.setAttribute('aria-pressed', String(!hide));
    for (const series of document.querySelectorAll('.series')) {
      if (series.dataset.series === button.dataset.series) series.classList.toggle('off', hide);
    }
  });
}
