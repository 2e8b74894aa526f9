import { Command, Query } from '@nestjs/cqrs';

/** A command with all that its handler needs, which returns a `Result`. */
export abstract class CommandWith<Input extends object, Result> extends Command<Result> {
  constructor(readonly input: Input) {
    super();
  }
}

/** A query with all that its handler needs, which returns a `Result`. */
export abstract class QueryWith<Input extends object, Result> extends Query<Result> {
  constructor(readonly input: Input) {
    super();
  }
}
