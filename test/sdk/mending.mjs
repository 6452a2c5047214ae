// Mends the dead letter of an event by keys alone, as an operator does: logs in with the token, pastes
// the id into the box, follows the life of the event to the dead letter, edits it, replays it, and
// sees it arrive. A page is one of playwright-core or of puppeteer-core.
export async function mending(page, { base, token, event, failures }) {
  const focused = (selector, text) => page.evaluate(([selector, text]) => {
    const at = document.activeElement
    return at.matches(selector) && (!text || at.textContent.trim() === text)
  }, [selector, text])
  // reach goes on to what has the focus after so many tabs.
  const reach = async (selector, text = '') => {
    for (let n = 0; n < 150; n++) {
      await page.keyboard.press('Tab')
      if (await focused(selector, text)) return
    }
    throw new Error(`${page.url()}: the key Tab does not reach ${selector} ${text}`)
  }
  const enter = () => Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
  const follow = async (selector, text) => {
    await reach(selector, text)
    await enter()
  }
  // find goes to the life of the event.
  const find = async () => {
    await page.keyboard.press('/')
    if (!await focused('#q')) failures.push('the key / does not go to the box')
    await page.keyboard.type(event)
    await enter()
  }
  const seen = async (text, what) => await page.evaluate((text) => document.body.textContent.includes(text), text) || failures.push(`${what}: ${page.url()} does not say “${text}”`)

  await page.goto(base)
  await reach('#token')
  await page.keyboard.type(token)
  await enter()
  await find()
  await seen('422', 'the life of an event')
  await follow('main a[href*="/dead/delivery/"]')
  await follow('main a', 'Edit payload')
  await reach('textarea')
  const payload = await page.evaluate(() => document.activeElement.value)
  await page.keyboard.down('Control')
  await page.keyboard.press('a')
  await page.keyboard.up('Control')
  await page.keyboard.type(payload.replace('"XXX"', '"EUR"'))
  await follow('main button', 'Replace the payload')
  await seen('What was changed', 'an edit')
  await reach('main a', 'Replay')
  await page.keyboard.press('Enter')
  await page.waitForSelector('dialog[open]')
  if (!await focused('dialog *', 'Cancel')) failures.push('a dialog does not begin at Cancel')
  await page.keyboard.press('Escape')
  if (!await focused('main a', 'Replay')) failures.push('a dialog does not give back the focus')
  await page.keyboard.press('Enter')
  await page.waitForSelector('dialog[open]')
  await follow('dialog button', 'Replay 1 dead letter')
  await seen('Replay of dead letters', 'a replay')
  await page.waitForSelector('[data-part=state] .good') // the page says so by itself
  if (await page.evaluate(() => document.querySelector('.head a[href$="/stop"]'))) failures.push('what is done can be stopped')
  await find()
  await page.waitForSelector('[data-part=fate] .good')
  await seen('of 1 partner 1 done with it', 'what became of the event')
}
