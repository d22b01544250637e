//! The command line as whoever uses it sees it: a real `taskgate serve` on one side, the commands of a requestor and of an operator
//! on the other.

mod answers;
mod asker;
mod calls;
mod crash;
mod golden;
mod logs;
mod operator;
mod served;
mod terminal;
