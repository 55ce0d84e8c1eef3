import { explained } from './explained';
import { program } from '.';

// Pulumi calls it, and takes what it returns for the outputs of the stack.
export = (): object => explained(() => program());
