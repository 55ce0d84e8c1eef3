/** In place of a module that is not needed: whoever does need it fails. */
export {};
