/**
 * Finds identifiers that name a natural person: e-mail addresses, telephone numbers, national identification numbers.
 * The log is permanent, so such an id is refused when it is written. docs/privacy.md lists the national schemes.
 */

/**
 * What kind of personal identifier a text is; undefined if it is none. Of a TRIS id, only the part after the prefix is
 * checked; of a metric, only the part after the category.
 */
export function personalDataIn(text: string): 'e-mail address' | 'telephone number' | 'national number' | undefined {
  const name = text.replace(/^(?:tris[@:]|did:(?:[a-z0-9]+:)?|[a-z]+_)/, '');
  // Also after a namespace, as in tris:customer:john@example.org.
  if (/(?:^|:)[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}$/.test(name)) return 'e-mail address';
  if (/^\+[\d ().-]{7,24}$/.test(name) && digitsOf(name).length >= 7) return 'telephone number';
  return isNationalNumber(name) ? 'national number' : undefined;
}

const digitsOf = (text: string): string => text.replace(/\D/g, '');

/** Only schemes with check digits: other national numbers cannot be told from ordinary numbers. */
function isNationalNumber(name: string): boolean {
  if (name.length > 24) return false;
  const spelled = name.toUpperCase();
  const bare = spelled.replace(/[ .-]/g, '');
  return SCHEMES.some(({ form, asSpelled, checks }) => {
    const number = asSpelled ? spelled : bare;
    return form.test(number) && checks(number);
  });
}

interface Scheme {
  form: RegExp;
  /** Checked with its separators, since without them it cannot be told from an ordinary number. */
  asSpelled?: true;
  checks(number: string): boolean;
}

const SCHEMES: Scheme[] = [
  // Belgium, rijksregisternummer: date of birth, modulus 97; from the year 2000 with a 2 in front.
  {
    form: /^\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{5}$/,
    checks: (n) => ['', '2'].some((era) => 97 - (Number(era + n.slice(0, 9)) % 97) === Number(n.slice(9))),
  },
  // Brazil, CPF: two check digits.
  {
    form: /^(?!(\d)\1{10})\d{11}$/,
    checks: (n) =>
      [9, 10].every((at) => ((weighed(n.slice(0, at), (i) => at + 1 - i) * 10) % 11) % 10 === Number(n[at])),
  },
  // China, resident identity number: date of birth, ISO 7064 MOD 11-2.
  {
    form: /^\d{6}(?:18|19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dX]$/,
    checks: (n) => '10X98765432'[weighed(n.slice(0, 17), (i) => 2 ** (17 - i) % 11) % 11] === n[17],
  },
  // Finland, henkilötunnus: date of birth, modulus 31.
  {
    form: /^(?:0[1-9]|[12]\d|3[01])(?:0[1-9]|1[0-2])\d{2}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y]$/,
    asSpelled: true,
    checks: (n) => '0123456789ABCDEFHJKLMNPRSTUVWXY'[Number(n.slice(0, 6) + n.slice(7, 10)) % 31] === n[10],
  },
  // France, NIR: sex, month of birth, modulus 97; Corsica has letters.
  {
    form: /^[12]\d{2}(?:0[1-9]|1[0-2])(?:\d{2}|2A|2B)\d{8}$/,
    checks: (n) => {
      const number = BigInt(n.slice(0, 13).replace('2A', '19').replace('2B', '18'));
      return 97n - (number % 97n) === BigInt(n.slice(13));
    },
  },
  // Italy, codice fiscale: a check letter.
  {
    form: /^[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]$/,
    checks: (n) => {
      const odd = 'BAKPLCQDREVOSFTGUHMINJWZYX';
      const value = (c: string) => (/\d/.test(c) ? Number(c) : c.charCodeAt(0) - 65);
      const sum = Array.from(n.slice(0, 15)).reduce(
        (s, c, i) => s + (i % 2 ? value(c) : odd.indexOf('ABCDEFGHIJKLMNOPQRSTUVWXYZ'[value(c)]!)),
        0,
      );
      return String.fromCharCode(65 + (sum % 26)) === n[15];
    },
  },
  // Poland, PESEL: date of birth with the century in the month, a check digit.
  {
    form: /^\d{2}(?:[02468][1-9]|[13579][0-2])(?:0[1-9]|[12]\d|3[01])\d{5}$/,
    checks: (n) => (10 - (weighed(n.slice(0, 10), (i) => [1, 3, 7, 9][i % 4]!) % 10)) % 10 === Number(n[10]),
  },
  // Spain, DNI and NIE: a check letter.
  {
    form: /^(?:\d{8}|[XYZ]\d{7})[A-Z]$/,
    checks: (n) =>
      'TRWAGMYFPDXBNJZSQVHLCKE'[Number(n.slice(0, 8).replace(/[XYZ]/, (c) => String('XYZ'.indexOf(c)))) % 23] === n[8],
  },
  // Sweden, personnummer: date of birth, Luhn; with ten digits only if it has its separator.
  {
    form: /^(?:(?:18|19|20)\d{2}|\d{2}(?=\d{4}[-+]))(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])[-+]?\d{4}$/,
    asSpelled: true,
    checks: (n) => {
      const digits = digitsOf(n).slice(-10);
      const sum = [...digits].reduce((s, c, i) => {
        const d = Number(c) * (i % 2 ? 1 : 2);
        return s + (d > 9 ? d - 9 : d);
      }, 0);
      return sum % 10 === 0;
    },
  },
];

const weighed = (digits: string, weight: (index: number) => number): number =>
  [...digits].reduce((sum, digit, i) => sum + Number(digit) * weight(i), 0);
