// The page's elements, and what their buttons do. All that talks to wallet and service is in session.js.
import { Session, discoverWallets } from './session.js';

const $ = (id) => document.getElementById(id);
const session = new Session(location.origin);
let wallets = [];
const chosen = () => wallets[$('wallets').selectedIndex].provider;

discoverWallets(window, (found) => {
  const before = $('wallets').selectedIndex;
  wallets = found;
  $('wallets').replaceChildren(...found.map(({ name }) => new Option(name)));
  $('wallets').selectedIndex = Math.max(before, found.length > 0 ? 0 : -1);
  $('wallets').disabled = $('sign-in').disabled = found.length === 0;
  if (!session.wallet)
    say(found.length > 0 ? 'Signed out.' : 'No wallet found in this browser. Install one, then reload.');
});

$('signed-out').addEventListener('submit', (event) => {
  event.preventDefault();
  void act(
    'Answer in your wallet …',
    () => session.signIn(chosen()),
    () => 'Signed in.',
  );
});
onClick(
  'claim',
  'Answer in your wallet …',
  () => session.signIn(chosen(), 'claim'),
  () => `Claimed ${session.trisId}.`,
);
onClick(
  'link',
  'Choose another account in your wallet, and sign with it …',
  () => session.link(chosen()),
  (wallet) => `Linked ${wallet}.`,
);
onClick(
  'refresh',
  'Renewing …',
  () => session.refresh(),
  () => 'Session renewed: both tokens are new, the old ones are used up.',
);
onClick(
  'sign-out',
  'Signing out …',
  () => session.signOut(),
  () => 'Signed out. The session has ended at the service too.',
);

function onClick(id, meanwhile, deed, done) {
  $(id).addEventListener('click', () => void act(meanwhile, deed, done));
}

/** Does something while no other button can be pressed, shows what has become of everything, and says so. */
async function act(meanwhile, deed, done) {
  const buttons = [...document.querySelectorAll('button')];
  const focused = document.activeElement;
  for (const button of buttons) button.disabled = true;
  $('trouble').textContent = '';
  say(meanwhile);
  let outcome;
  try {
    outcome = done(await deed());
    show(await session.standing());
  } catch (error) {
    if (outcome || !session.wallet) show(null);
    $('trouble').textContent = error.message;
  }
  say(outcome ?? (session.wallet ? 'Signed in.' : 'Signed out.'));
  for (const button of buttons) button.disabled = false;
  // A button that has gone leaves the keyboard nowhere.
  const next = focused?.checkVisibility?.() ? focused : session.wallet ? $('sign-out') : $('sign-in');
  next.focus();
}

function say(text) {
  $('status').textContent = text;
}

function show(standing) {
  const { wallet, trisId } = session;
  $('signed-out').hidden = wallet !== null;
  $('signed-in').hidden = wallet === null;
  $('wallet').textContent = wallet ?? '';
  $('tris').textContent = trisId ?? 'none';
  $('no-tris').hidden = $('claim').hidden = trisId !== null;
  $('link').hidden = trisId === null;
  $('standing').hidden = standing === null;
  if (standing === null) return;
  const { score, rank, credonations, wallets } = standing;
  $('score').textContent = `${score.score} (${score.score_rating})`;
  $('tct').textContent = `${score.total_tct} (${score.earned_tct} earned, ${score.forfeited_tct} forfeited)`;
  $('verification').textContent = score.verification.map(({ status }) => status).join(', ') || 'nothing yet';
  $('rank').textContent = rank
    ? `${rank.disc_rank} (${rank.tct_total} TCT)`
    : 'none: only vetted organizations have one';
  list(
    'metrics',
    Object.entries(score.disc_metrics).map(([category, health]) => `${category}: ${health}`),
  );
  list(
    'credonations',
    credonations.map(({ from, amount, category }) => `${amount} TCT from ${from}, ${category}`),
  );
  list(
    'linked',
    wallets.map(({ wallet, proof }) => `${wallet}, ${proof}`),
  );
}

/** Text only: what stands in it was said by others. */
function list(id, lines) {
  const items = (lines.length > 0 ? lines : ['none yet']).map((line) => {
    const item = document.createElement('li');
    item.textContent = line;
    return item;
  });
  $(id).replaceChildren(...items);
}
