package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Person exchanges the code that the provider gave for who logged in. ErrAway; ErrWrong where the code
// is none, or what was answered is not of this provider, this instance, this attempt, and now.
func (p *Provider) Person(ctx context.Context, a *Attempt, code string) (who Person, err error) {
	k, err := p.discover(ctx)
	if err != nil {
		return who, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := p.config(k, a).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response.StatusCode/100 == 4 {
		return who, fmt.Errorf("%w: it refused the code (%.40q)", ErrWrong, refused.ErrorCode)
	}
	if err != nil {
		return who, fmt.Errorf("%w: the code could not be exchanged", ErrAway) // the error quotes the answer
	}
	claims, err := p.claims(ctx, k, tokens, a.Nonce)
	if err != nil {
		return who, fmt.Errorf("%w: %s", ErrWrong, short(err))
	}
	if _, has := claimed(claims, p.o.Groups); !has && k.UserInfoEndpoint() != "" {
		if err := addInfo(ctx, k, tokens, claims); err != nil {
			return who, err
		}
	}
	if who, err = p.person(claims); err != nil {
		return who, err
	}
	if at, ok := claims["auth_time"].(float64); ok {
		who.Entered = time.Unix(int64(at), 0)
	}
	if now := p.o.Now(); !who.Entered.IsZero() && (who.Entered.Before(now.Add(-a.MaxAge-skew)) || who.Entered.After(now.Add(skew))) {
		return who, fmt.Errorf("%w: its login is of %s", ErrWrong, who.Entered.UTC().Format(time.RFC3339))
	}
	return who, nil
}

// claims are those of the ID token, which is checked.
func (p *Provider) claims(ctx context.Context, k *known, tokens *oauth2.Token, nonce string) (map[string]any, error) {
	raw, ok := tokens.Extra("id_token").(string)
	if !ok {
		return nil, errors.New("there is no ID token")
	}
	now := p.o.Now()
	id, err := k.Verifier(&oidc.Config{ClientID: p.o.ClientID, Now: func() time.Time { return now.Add(-skew) }}).Verify(ctx, raw)
	if err != nil {
		return nil, err
	}
	claims := map[string]any{}
	var its struct {
		Begins *float64 `json:"nbf"`
		Party  string   `json:"azp"`
	}
	if err := errors.Join(id.Claims(&claims), id.Claims(&its)); err != nil {
		return nil, err
	}
	latest := now.Add(skew)
	switch {
	case nonce == "" || id.Nonce != nonce:
		return nil, errors.New("the ID token is of another login")
	case id.IssuedAt.After(latest) || its.Begins != nil && *its.Begins > float64(latest.Unix()):
		return nil, errors.New("the ID token is of a time that is still to come")
	case its.Party != "" && its.Party != p.o.ClientID, its.Party == "" && len(id.Audience) > 1:
		return nil, errors.New("the ID token was given to another party")
	case id.Subject == "":
		return nil, errors.New("the ID token is nobody's")
	case id.AccessTokenHash != "":
		return claims, id.VerifyAccessToken(tokens.AccessToken)
	}
	return claims, nil
}

// addInfo adds claims that the ID token does not have: some providers tell groups there alone.
func addInfo(ctx context.Context, k *known, tokens *oauth2.Token, claims map[string]any) error {
	info, err := k.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return fmt.Errorf("%w: %s", ErrAway, short(err))
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil || more["sub"] != claims["sub"] {
		return fmt.Errorf("%w: the user info is of somebody else", ErrWrong)
	}
	for name, v := range more {
		if _, has := claims[name]; !has {
			claims[name] = v
		}
	}
	return nil
}

// person is who has claims.
func (p *Provider) person(claims map[string]any) (who Person, err error) {
	v, _ := claimed(claims, p.o.Name)
	who.Name, _ = v.(string)
	switch {
	case who.Name == "" || len(who.Name) > 128 || strings.ContainsFunc(who.Name, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return who, fmt.Errorf("%w: it gives no name in the claim %s", ErrWrong, p.o.Name)
	case p.o.Name == "email" && unverified(claims["email_verified"]):
		return who, fmt.Errorf("%w: the address in the claim email is not verified", ErrWrong)
	}
	v, _ = claimed(claims, p.o.Groups)
	switch v := v.(type) {
	case string:
		who.Groups = []string{v}
	case []any:
		for _, g := range v {
			if name, ok := g.(string); ok {
				who.Groups = append(who.Groups, name)
			}
		}
	}
	return who, nil
}

// unverified says whether a provider says that an address was not verified. Those that verify all
// of them say nothing.
func unverified(v any) bool { return v != nil && v != true && v != "true" }

// claimed is the claim of a name, which may have dots in it, else that of a path with dots.
func claimed(claims map[string]any, path string) (any, bool) {
	if v, ok := claims[path]; ok {
		return v, true
	}
	name, rest, more := strings.Cut(path, ".")
	below, ok := claims[name].(map[string]any)
	if !more || !ok {
		return nil, false
	}
	return claimed(below, rest)
}
