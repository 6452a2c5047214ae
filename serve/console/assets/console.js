// Pages are complete without this. It refreshes figures in place, asks in a dialog, copies, moves by
// keys, and says when the clock of this browser is wrong.
'use strict'
const root = document.documentElement
root.classList.add('js')
const $ = (selector, from = document) => from.querySelector(selector)
const $$ = (selector, from = document) => [...from.querySelectorAll(selector)]
const store = { // what this browser keeps; a browser that keeps nothing works too
  get(name) { try { return localStorage.getItem(name) } catch { return null } },
  set(name, value) { try { localStorage.setItem(name, value) } catch { /* it keeps nothing */ } },
}

// The one place where HTML is read: a page that this instance rendered.
const trusted = window.trustedTypes ? trustedTypes.createPolicy('console', { createHTML: (page) => page }) : { createHTML: (page) => page }
const read = (page) => new DOMParser().parseFromString(trusted.createHTML(page), 'text/html')

async function load(address) {
  const answer = await fetch(address, { headers: { Accept: 'text/html' }, redirect: 'error' })
  if (!(answer.headers.get('Content-Type') || '').startsWith('text/html')) throw new Error(answer.status)
  return { page: read(await answer.text()), ok: answer.ok, status: answer.status }
}

let toast, toasted
function say(text) {
  if (!toast) {
    toast = document.createElement('p')
    toast.className = 'toast'
    toast.setAttribute('role', 'status')
    document.body.append(toast)
  }
  toast.textContent = text
  toast.classList.remove('hidden')
  clearTimeout(toasted)
  toasted = setTimeout(() => toast.classList.add('hidden'), 4000)
}

// Copying works without https too.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text)
  } catch {
    const area = document.createElement('textarea')
    area.value = text
    area.className = 'off'
    const at = document.activeElement
    ;($('dialog[open]') || document.body).append(area)
    area.select()
    document.execCommand('copy')
    area.remove()
    if (at) at.focus()
  }
  say('Copied.')
}

// Figures are fetched again 10 seconds after the last answer came, while somebody looks; sooner when the
// stream says that they are others, and seldom while it says nothing.
const every = 10_000, soonest = 2_000, seldom = 30_000
let stopped = false, timer, answered = Date.now(), heard = 0
const live = document.body.dataset.live === 'true'
async function refresh() {
  clearTimeout(timer)
  if (!live || stopped || document.hidden || $('dialog[open]')) return again()
  late = 'Updates do not come'
  try {
    const { page, ok, status } = await load(location.href)
    if (ok) late = ''
    else if (status === 401) late = 'You are logged out'
    if (ok && !stopped && !$('dialog[open]')) { // which may have come meanwhile
      waiting = $$('[data-part]', page).map((now) => [$(`[data-part="${now.dataset.part}"]`), now]).filter(([old, now]) => old && !inPlace(old, now))
      ahead = newer(page)
      settle()
      speak()
    }
  } catch { /* the instance is away; the next time says */ }
  still()
  again()
}

// What does not come is said, with the time of what is shown.
let late = ''
function still() {
  const why = stopped ? 'Updates are stopped' : late, text = why && why + ': all is of ' + $('#made').textContent + '.'
  if ($('#stopped').textContent !== text) $('#stopped').textContent = text
}
const plain = (part) => part.textContent.replace(/\s+/g, ' ').trim()

// Nothing moves under the pointer or the focus. A part is renewed in place where nothing but figures
// differs. One whose rows or buttons are others waits while the pointer or the focus is on one that it
// has, and while its renewal would move what the pointer is on. What waits is said.
let waiting = [], ahead = null
const hovers = matchMedia('(hover: hover)')
const pointed = () => hovers.matches && $$(':hover').pop()?.closest('tbody tr, .list li, a, button, summary, input, select, textarea, label')
function settle() {
  if (stopped || $('dialog[open]')) return
  waiting = waiting.filter(([old, now]) => !replaced(old, now))
  mark()
}
const figures = ['class', 'datetime', 'points'], owned = [...figures, 'open', 'data-sent']
const nodes = (of) => [of, ...[...of.childNodes].flatMap(nodes)]
const kind = (node) => node.nodeType === 1 ? node.nodeName + node.getAttributeNames().filter((name) => !owned.includes(name)).map((name) => name + '=' + node.getAttribute(name)) : node.parentNode.closest('th') ? node.data : ''
function inPlace(old, now) {
  const a = nodes(old), b = nodes(now)
  if (a.length !== b.length || a.some((node, i) => node.nodeType !== b[i].nodeType || kind(node) !== kind(b[i]))) return false
  a.forEach((node, i) => {
    if (node.nodeType !== 1) {
      if (node.data !== b[i].data) node.data = b[i].data
    } else if (node.localName !== 'tr') { // the class of a row is that of the keys
      for (const name of figures) {
        const value = b[i].getAttribute(name)
        if (value === null) node.removeAttribute(name)
        else if (value !== node.getAttribute(name)) node.setAttribute(name, value)
      }
    }
  })
  return true
}
function replaced(old, now) {
  const at = pointed() || null
  if (old.contains(at) || old.contains(document.activeElement)) return false
  const had = [...old.childNodes], top = at && at.getBoundingClientRect().top
  const open = new Set($$('details[open]', old).map((d) => $('summary', d).textContent))
  for (const d of $$('details', now)) d.open = d.open || open.has($('summary', d).textContent)
  old.replaceChildren(...now.childNodes)
  if (!at || at.getBoundingClientRect().top === top) return true
  now.replaceChildren(...old.childNodes)
  old.replaceChildren(...had)
  return false
}
for (const moved of ['pointerover', 'pointerout', 'focusin', 'focusout']) document.addEventListener(moved, () => waiting.length && settle())

// Rows of a list stand still: it says how many it has that are not shown.
const keys = (of) => $$('tbody tr, .list li', of).map((row) => $('a', row)?.getAttribute('href')).filter(Boolean)
function newer(page) {
  const list = $('[data-list]'), other = $('[data-list]', page)
  if (!list || !other) return null
  const has = keys(list), now = keys(other), shown = has.length ? now.findIndex((key) => has.includes(key)) : -1
  const count = shown < 0 ? now.length : shown // those before the first one that is shown
  if (!count) return null
  const link = document.createElement('a')
  link.href = location.pathname + location.search
  link.textContent = count + (shown < 0 && has.length ? ' or more' : '') + ' newer: show them'
  return link
}
function mark() {
  const at = $('#newer')
  if (!at) return
  const words = waiting.map(([old, now]) => {
    const has = keys(old), count = keys(now).filter((key) => !has.includes(key)).length
    const name = $('h2', old)?.textContent || old.getAttribute('aria-label')
    return (name ? name + ': ' : '') + (count ? count + ' newer' : 'newer figures')
  })
  if (words.length) words.push('Shown when the pointer and the focus are elsewhere.')
  const text = words.join('. ')
  if (at.textContent !== (ahead ? ahead.textContent : '') + text) at.replaceChildren(...(ahead ? [ahead, text] : [text]))
  at.classList.toggle('hidden', !ahead && !text)
}

// Screen readers are told of what matters, when it is other than before, and not more often than each 5 seconds.
const matters = () => [...$$('[data-say]').map(plain), $('#newer:not(.hidden)') ? 'There is newer.' : ''].filter(Boolean).join(' ')
let says = live && matters(), spoke = 0
function speak() {
  const text = matters()
  if (text === says || Date.now() - spoke < 5000) return
  $('#said').textContent = says = text
  spoke = Date.now()
}
function again() {
  answered = Date.now()
  timer = setTimeout(refresh, Date.now() - heard < seldom ? seldom : every)
}
function news() {
  clearTimeout(timer)
  timer = setTimeout(refresh, Math.max(0, answered + soonest - Date.now()))
}
function stop() {
  stopped = !stopped
  const button = $('#stop')
  if (button) {
    button.setAttribute('aria-pressed', stopped)
    button.textContent = stopped ? 'Go on' : 'Stop updates'
  }
  still()
  if (!stopped) refresh()
}
if (live) {
  again()
  document.addEventListener('visibilitychange', () => document.hidden || refresh())
}

// One tab of a browser listens for all of them. Each says what it shows, as long as somebody looks.
const stream = document.body.dataset.stream, mine = (document.body.dataset.topics || '').split(' ').filter(Boolean)
if (live && stream && mine.length && navigator.locks && window.BroadcastChannel && window.EventSource) {
  const tabs = new BroadcastChannel('tidemill ' + stream), me = Math.random().toString(36)
  let wants = new Map(), source, hears = '', leave = null, hiddenAt = 0
  const hear = (topic) => {
    heard = Date.now()
    if (mine.includes(topic) && !stopped && !document.hidden) news()
  }
  const tell = (said) => {
    tabs.postMessage(said)
    take(said)
  }
  const listen = () => { // to what all tabs show
    const now = Date.now()
    wants = new Map([...wants].filter(([, w]) => now - w.at < 3 * every))
    const topics = [...new Set([...wants.values()].flatMap((w) => w.topics))].sort().slice(0, 20)
    if (topics.join(' ') !== hears || source && source.readyState === EventSource.CLOSED) {
      if (source) source.close()
      hears = topics.join(' ')
      source = hears && new EventSource(stream + '?' + new URLSearchParams(topics.map((t) => ['topic', t])))
      for (const kind of new Set(topics.map((t) => t.split(':')[0]))) source.addEventListener(kind, (e) => tell({ topic: JSON.parse(e.data).topic }))
    }
    if (source && source.readyState === EventSource.OPEN) tell({ alive: true })
  }
  const take = (said) => {
    if (said.topics) {
      wants.set(said.from, { topics: said.topics, at: Date.now() })
      if (leave) listen()
    } else hear(said.topic)
  }
  const lead = () => navigator.locks.request('tidemill ' + stream, () => new Promise((done) => {
    leave = () => {
      if (source) source.close()
      source = hears = leave = null
      done()
    }
    listen()
  }))
  const want = () => {
    if (!document.hidden) hiddenAt = 0
    else if (!hiddenAt) {
      hiddenAt = Date.now()
      setTimeout(want, seldom)
    }
    const away = hiddenAt && Date.now() - hiddenAt >= seldom
    if (away && source) { // a tab that somebody looks at leads
      leave()
      lead()
    }
    tell({ from: me, topics: away || stopped ? [] : mine })
    if (leave) listen()
  }
  tabs.onmessage = (e) => take(e.data)
  setInterval(want, every)
  document.addEventListener('visibilitychange', want)
  want()
  lead()
}

// A change is asked for in a dialog: the form of its own page. Where it was asked for has the focus again
// when it closes: in Safari a click gives it none.
let dialog
async function ask(address, from) {
  let form
  try {
    form = $('[data-ask]', (await load(address)).page)
  } catch { /* its own page says why */ }
  if (!form) return location.assign(address)
  if (!dialog) {
    dialog = document.createElement('dialog')
    document.body.append(dialog)
    dialog.setAttribute('aria-labelledby', 'asked')
  }
  dialog.replaceChildren(document.adoptNode(form))
  const title = $('h1, h2', form)
  if (title) title.id = 'asked'
  dialog.addEventListener('close', () => from.focus(), { once: true })
  dialog.showModal()
  const no = $('[data-no]', dialog)
  if (no) no.focus()
}

document.addEventListener('click', (e) => {
  const by = (selector) => e.target.closest(selector)
  const plainClick = !e.ctrlKey && !e.metaKey && !e.shiftKey && e.button === 0
  if (by('[data-text]')) {
    copy(by('[data-text]').dataset.text)
  } else if (by('[data-link]')) {
    copy(new URL(by('[data-link]').dataset.link, location).href)
  } else if (by('[data-copy]')) {
    copy($(by('[data-copy]').dataset.copy, by('dialog, body')).textContent)
  } else if (by('#stop')) {
    stop()
  } else if (by('dialog [data-no]')) {
    e.preventDefault()
    dialog.close()
  } else if (by('a[data-asks]') && plainClick) {
    e.preventDefault()
    ask(by('a[data-asks]').href, by('a[data-asks]'))
  } else if (by('button[data-asks]')) {
    const button = by('button[data-asks]')
    e.preventDefault()
    const chosen = new URLSearchParams(new FormData(button.form))
    if (!chosen.has(button.dataset.asks)) return say('Choose some first.')
    ask((button.formAction || button.form.action).split('?')[0] + '?' + chosen, button)
  } else if (by('[data-all]')) {
    for (const box of $$('tbody input[type=checkbox]')) box.checked = by('[data-all]').checked
  }
})

// A form is sent once.
document.addEventListener('submit', (e) => {
  if (e.target.method !== 'post') return
  if (e.target.dataset.sent) return e.preventDefault()
  e.target.dataset.sent = 'true'
})
window.addEventListener('pageshow', () => $$('form[data-sent]').forEach((f) => delete f.dataset.sent))

// Keys. Those of one character can be switched off.
const rows = () => $$('tbody tr')
let at = -1, g = false
function move(by) {
  const all = rows()
  if (!all.length) return
  if (all[at]) all[at].classList.remove('at')
  at = Math.max(0, Math.min(all.length - 1, at + by))
  all[at].classList.add('at')
  const link = $('a', all[at])
  if (link) link.focus()
  all[at].scrollIntoView({ block: 'nearest' })
}
document.addEventListener('keydown', (e) => {
  const box = $('#q')
  if (e.key === 'k' && (e.ctrlKey || e.metaKey) && box) {
    e.preventDefault()
    return box.focus()
  }
  if (e.ctrlKey || e.metaKey || e.altKey || store.get('keys') === 'off' || $('dialog[open]') || e.target.closest('input, textarea, select')) return
  if (g) {
    g = false
    const to = $(`[data-key="${CSS.escape(e.key)}"]`)
    if (to) to.click()
    return
  }
  const does = {
    '/': () => box && box.focus(), g: () => { g = true; setTimeout(() => { g = false }, 1500) }, j: () => move(1), k: () => move(-1),
    x: () => { const tick = rows()[at] && $('input[type=checkbox]', rows()[at]); if (tick) tick.checked = !tick.checked },
    '.': () => live && stop(), '?': () => $('#keys') && ($('#keys').open = !$('#keys').open, $('#keys summary').focus()),
  }[e.key]
  if (does) {
    e.preventDefault()
    does()
  }
})

const single = $('#onekeys')
if (single) {
  single.checked = store.get('keys') !== 'off'
  single.addEventListener('change', () => store.set('keys', single.checked ? 'on' : 'off'))
}
const zone = $('#localzone')
if (zone) {
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone
  zone.textContent = 'Use ' + here
  zone.addEventListener('click', () => { $('#zone').value = here })
}
// Examples name the address that this browser knows the instance by.
for (const example of $$('[data-origin]')) example.textContent = example.textContent.replaceAll('ADDRESS', location.origin)
// What was done is said once: not again to whom its address is given, nor after going back.
const shown = new URL(location.href)
if (shown.searchParams.has('done')) {
  shown.searchParams.delete('done')
  history.replaceState(history.state, '', shown)
}
// The secret of a link for one time is in the fragment, which no server sees: it is posted.
const link = $('#link')
if (link && location.hash.length > 1) {
  link.value = location.hash.slice(1)
  history.replaceState(null, '', location.pathname)
  link.form.submit()
}
const made = $('#made')
if (made && Math.abs(Date.now() - Date.parse(made.dateTime)) > 30_000 && performance.getEntriesByType('navigation')[0]?.type === 'navigate') {
  $('#skew').classList.remove('hidden')
}
