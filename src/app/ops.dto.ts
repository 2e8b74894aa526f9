export class LivenessDto {
  status: string;
}

export class CheckDto {
  name: string;
  /** `ok` or `failed`. */
  status: string;
  detail: string;
}

export class ReadinessDto {
  /** `ok` or `unavailable`. */
  status: string;
  checks: CheckDto[];
}
