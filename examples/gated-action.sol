// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EligibilityVerifier, Voucher} from "../contracts/EligibilityVerifier.sol";

/// Where the borrower of the walk-through has a history: emits what a pool of Aave v3 does for a repayment.
contract LendingPool {
    event Repay(address indexed reserve, address indexed user, address indexed repayer, uint256 amount, bool useATokens);

    function repay(uint256 amount) external {
        emit Repay(address(this), msg.sender, msg.sender, amount, false);
    }
}

/// The action that is gated: opens a line of credit, once for each decision under one policy.
contract CreditLine is EligibilityVerifier {
    bytes32 public immutable POLICY_HASH;
    mapping(address wallet => uint256) public limitOf;

    error OtherPolicy(bytes32 policyHash);

    constructor(address firstOwner, address firstIssuer, bytes32 policyHash) EligibilityVerifier(firstOwner, firstIssuer) {
        POLICY_HASH = policyHash;
    }

    function open(Voucher calldata voucher, bytes calldata signature) external {
        if (voucher.policyHash != POLICY_HASH) revert OtherPolicy(voucher.policyHash);
        redeem(voucher, signature);
        limitOf[msg.sender] += 1 ether;
    }
}
