// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// Where the borrower of the walk-through has a history: emits what a pool of Aave v3 does for a repayment.
contract LendingPool {
    event Repay(address indexed reserve, address indexed user, address indexed repayer, uint256 amount, bool useATokens);

    function repay(uint256 amount) external {
        emit Repay(address(this), msg.sender, msg.sender, amount, false);
    }
}
