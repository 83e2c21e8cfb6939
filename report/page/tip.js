// Small helpers for elements, and the box that shows the values of what is pointed at.

const root = document.documentElement;
const cssColor = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const runColor = (run) => cssColor('--c' + run.color);

// Texts are set as text, never as HTML: names of strategies may hold anything.
function addElement(parent, tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
}

const tip = document.getElementById('tip');

// Shows a name and a text next to a place, in pixels of the window.
function showTip(name, text, x, y) {
  tip.replaceChildren();
  addElement(tip, 'b', '', name);
  tip.append(text);
  tip.style.display = 'block';
  tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - tip.offsetWidth - 8)) + 'px';
  const above = y - tip.offsetHeight - 12;
  tip.style.top = (above < 8 ? y + 18 : above) + 'px';
}

function hideTip() {
  tip.style.display = 'none';
}

addEventListener('scroll', hideTip, {passive: true});
addEventListener('click', (event) => {
  if (!event.target.closest('.uplot')) hideTip();
}, {capture: true});
